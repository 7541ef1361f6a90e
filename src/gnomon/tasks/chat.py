"""A conversation as one text, by the template that came with a model; nothing else of it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gnomon.errors import DataError

_LONGEST = 1 << 20  # characters of a template


def rendered(template: str, messages: Sequence[Mapping[str, str]], begin: str, end: str) -> str:
    """The text that a chat model goes on from.

    The template is a program in Jinja's language. It runs in Jinja's sandbox: it reads what it is
    given and can reach nothing else.

    Args:
        template: as it came with the tokenizer.
        messages: each with "role" and "content".
        begin: the written form of the token that begins a text.
        end: of the one that ends it.

    Raises:
        DataError: jinja2 is not installed, the template is broken, or it refuses the messages.
    """
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise DataError(
            "chat templates are rendered by jinja2, which is not installed",
            mend="pip install jinja2",
        ) from error
    if len(template) > _LONGEST:
        raise DataError("a chat template must be short", seen=f"{len(template):,} characters")

    def refuse(message: str) -> None:
        raise TemplateError(message)

    world = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    world.globals["raise_exception"] = refuse
    try:
        return world.from_string(template).render(
            messages=[dict(message) for message in messages],
            add_generation_prompt=True,
            bos_token=begin,
            eos_token=end,
        )
    except (TemplateError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            "a chat template must render these messages", seen=str(error).split("\n")[0]
        ) from error
