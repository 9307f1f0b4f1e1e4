"""Ctrl-C, wherever it falls."""


def comes_from_ctrl_c(error: BaseException) -> bool:
    """Returns whether an error was raised while a library cleaned up after Ctrl-C."""
    context: BaseException | None = error
    seen: set[int] = set()  # a cause that is raised again has its wrapper as context: a ring
    while context is not None and id(context) not in seen:
        if isinstance(context, KeyboardInterrupt):
            return True
        seen.add(id(context))
        context = context.__cause__ or context.__context__
    return False
