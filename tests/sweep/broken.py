"""A factory that cannot make an evaluator."""


def factory():
    raise OSError("no such model")
