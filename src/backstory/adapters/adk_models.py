"""Events of ADK from their forms, without validating ten thousand times what ADK has written itself.

The first event of each shape is validated by ADK, and built a second time as a copy of that model with the
values of its form. Where both are the same, to the types of all values, further events of this shape are
only built. Where they are not (an enumeration, bytes, a set), all of them are validated.
"""

from typing import Any

from google.adk.events.event import Event as AdkEvent
from pydantic import BaseModel

MOST_SHAPES = 1_000  # that are kept; arguments of calls may have any shape
PLAIN = frozenset({str, int, float, bool, type(None)})

Form = dict[str, Any]


class Template:
    """A model to copy, and how those of its values are made that have models in them."""

    def __init__(self, model: BaseModel, inner: "dict[str, Template | list[Template]]") -> None:
        self._model = model
        self._inner = inner

    def forget(self) -> None:
        """Keep none of the values that every form brings with it: they would stay as long as the process."""
        values = vars(self._model)
        values.update(dict.fromkeys(self._model.model_fields_set))
        for inner in self._inner.values():
            for each in inner if isinstance(inner, list) else [inner]:
                each.forget()

    def __call__(self, form: Form) -> BaseModel:
        """A model like this one with the values of a form, which become part of it."""
        made = self._model.__copy__()
        values = made.__dict__
        values.update(form)
        for name, inner in self._inner.items():
            if isinstance(inner, list):
                values[name] = [each(value) for each, value in zip(inner, form[name], strict=True)]
            else:
                values[name] = inner(form[name])
        return made


_templates: dict[Any, Template | None] = {}  # by shape; None: such events have to be validated


def adk_events(forms: list[Form]) -> list[AdkEvent]:
    """The events of these forms. They may share parts with the forms, so the caller must not keep those."""
    return [_event(form) for form in forms]


def _event(form: Form) -> AdkEvent:
    shape = shape_of(form)
    template = _templates.get(shape)
    if template is not None:
        return template(form)
    event = AdkEvent.model_validate(form)
    if shape not in _templates and len(_templates) < MOST_SHAPES:
        _templates[shape] = _proven(event.model_copy(deep=True), form)
    return event


def shape_of(value: Any) -> Any:
    """What JSON has in common with other JSON of the same keys, lengths and types."""
    if type(value) is dict:
        return tuple([(name, shape_of(each)) for name, each in value.items()])
    if type(value) is list:
        return list, tuple([shape_of(each) for each in value])
    return type(value)


def _proven(model: BaseModel, form: Form) -> Template | None:
    """What builds such models, if it builds this one."""
    template = _template(model, form)
    if template is None:
        return None
    made = template(form)
    if made != model or repr(made) != repr(model):
        return None
    template.forget()
    return template


def _template(model: BaseModel, form: Any) -> Template | None:
    """What might build a model of its form. Values that the form has not are shared by all copies."""
    values = vars(model)
    if (
        not isinstance(form, dict)
        or form.keys() != model.model_fields_set
        or model.__pydantic_private__
    ):
        return None
    if any(type(value) not in PLAIN for name, value in values.items() if name not in form):
        return None
    inner: dict[str, Template | list[Template]] = {}
    for name, value in values.items():
        if isinstance(value, BaseModel):
            found = _template(value, form[name])
            if found is None:
                return None
            inner[name] = found
        elif isinstance(value, list) and any(isinstance(each, BaseModel) for each in value):
            several = [_template(each, one) for each, one in zip(value, form[name], strict=True)]
            if None in several:
                return None
            inner[name] = [each for each in several if each is not None]
    return Template(model, inner)
