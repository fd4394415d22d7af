"""Actions of an agent: does a model carry out what it may, and hold back what it may not?"""
