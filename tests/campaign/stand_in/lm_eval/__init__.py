"""Lies before the real package on the path. Its modules except ``__main__`` are the real package's."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
