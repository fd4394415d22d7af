"""Actions of an agent: does a model carry out cleared actions, and hold back all others?"""
