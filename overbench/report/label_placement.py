"""Places names beside the points of a figure, so that they hide neither points nor each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points of 1/72 inch."""

NEAR: Final = 6.0
"""Points between a marker's middle and a name that stands beside it."""
_DISTANCES: Final = (NEAR, 12.0, 22.0, 36.0, 54.0, 78.0, 108.0)
_DIRECTIONS: Final = 16
_MARKER: Final = 4.5
_PASSES: Final = 4
# What a square point of overlap costs, against a point of distance.
_LEAVES, _ON_NAME, _ON_MARKER, _ON_LINE = 50.0, 20.0, 12.0, 1.5


def place_labels(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    inside: Box,
    lines: Sequence[Box] = (),
    taken: Sequence[Box] = (),
) -> list[tuple[float, float]]:
    """The middle of each point's name.

    Each name in turn takes the cheapest of the places around its point. Then each name is placed once more,
    with all other names in place. The same points give the same places.

    Args:
        points: (x, y) of each, in points of 1/72 inch; so are all other arguments.
        sizes: width and height of each name.
        inside: the box that names must stay in.
        lines: thin boxes that names should not cross (error bars).
        taken: boxes that names must not hide, beside the points themselves.
    """
    import numpy as np

    markers = np.array([(x - _MARKER, y - _MARKER, x + _MARKER, y + _MARKER) for x, y in points])
    fixed = np.array(taken, dtype=float).reshape(-1, 4)
    crossed = np.array(lines, dtype=float).reshape(-1, 4)
    placed = np.full((len(points), 4), math.nan)
    # The most crowded choose first.
    away = np.hypot(*(np.array(points)[:, None] - np.array(points)[None]).T)
    order = np.argsort((away > 50).sum(axis=0), kind="stable")
    for _ in range(_PASSES):
        for index in map(int, order):
            boxes, far = _candidates(points[index], sizes[index])
            others = np.delete(placed, index, axis=0)
            others = others[~np.isnan(others[:, 0])]
            width, height = sizes[index]
            cost = (
                far
                + _LEAVES * (width * height - _overlap(boxes, np.array([inside])))
                + _ON_NAME * _overlap(boxes, np.concatenate([others, fixed]))
                + _ON_MARKER * _overlap(boxes, markers)
                + _ON_LINE * _overlap(boxes, crossed)
            )
            placed[index] = boxes[int(cost.argmin())]
    return [((left + right) / 2, (low + high) / 2) for left, low, right, high in placed.tolist()]


def _candidates(
    point: tuple[float, float], size: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(C, 4) boxes around the point, the best liked first, and (C,) their distances."""
    import numpy as np

    (x, y), (width, height) = point, size
    boxes, far = [], []
    for distance in _DISTANCES:
        for step in range(_DIRECTIONS):
            angle = 2 * math.pi * step / _DIRECTIONS
            right, up = math.cos(angle), math.sin(angle)
            middle_x = x + right * (distance + width / 2)
            middle_y = y + up * (distance + height / 2)
            boxes.append(
                (middle_x - width / 2, middle_y - height / 2, middle_x + width / 2, middle_y + height / 2)
            )
            # Beside is read more easily than above.
            far.append(distance + 3 * abs(up) + (1 if right < 0 else 0))
    return np.array(boxes), np.array(far)


def _overlap(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """(C,): how much of each of ``boxes`` (C, 4) lies under ``others`` (N, 4), in square points."""
    import numpy as np

    across = np.minimum(boxes[:, None, 2], others[None, :, 2]) - np.maximum(
        boxes[:, None, 0], others[None, :, 0]
    )
    along = np.minimum(boxes[:, None, 3], others[None, :, 3]) - np.maximum(
        boxes[:, None, 1], others[None, :, 1]
    )
    under: NDArray[np.float64] = (across.clip(min=0) * along.clip(min=0)).sum(axis=1)
    return under
