"""Which layers look back how far: `layer_types`, `sliding_window_pattern`, `max_window_layers` and the rules of each family."""

from __future__ import annotations

from collections import Counter

from planner.models.decoder import Span
from planner.models.fields import MAX_CONTEXT, MAX_LAYERS, Fields
from planner.models.spec import AttentionKind

_KINDS = {
    "full_attention": AttentionKind.FULL,
    "sliding_attention": AttentionKind.SLIDING,
    "chunked_attention": AttentionKind.CHUNKED,
    "global": AttentionKind.FULL,
    "local": AttentionKind.SLIDING,
}


def spans_by_type(config: Fields, layers: int) -> tuple[Span, ...] | None:
    """Return the spans that an explicit `layer_types` list gives, or None where there is no such list."""
    types = config.strings("layer_types")
    if types is None:
        return None
    if len(types) != layers:
        raise config.error(
            "layer_types", f"has {len(types)} entries for {layers} layers; it should have one for each layer"
        )
    spans = []
    for word, count in sorted(Counter(types).items()):
        if word not in _KINDS:
            raise config.error(
                "layer_types", f"has {word!r}; it should be full_attention, sliding_attention or chunked_attention"
            )
        kind = _KINDS[word]
        spans.append(Span(layers=count, kind=kind, window=_window(config, kind)))
    return tuple(spans)


def _window(config: Fields, kind: AttentionKind) -> int | None:
    if kind is AttentionKind.SLIDING:
        return config.integer("sliding_window", maximum=MAX_CONTEXT)
    if kind is AttentionKind.CHUNKED:
        return config.integer("attention_chunk_size", maximum=MAX_CONTEXT)
    return None


def every_nth_full(config: Fields, layers: int, *, pattern: int, window: int | None) -> tuple[Span, ...]:
    """Return spans where every `pattern`-th layer is full and the others slide."""
    full = layers // pattern
    return (Span(layers=full), Span(layers=layers - full, kind=AttentionKind.SLIDING, window=window))


def spans_of(config: Fields, layers: int) -> tuple[Span, ...]:
    """Return the spans by the common fields: an explicit list, a pattern, a first layer that slides, or one window for all."""
    explicit = spans_by_type(config, layers)
    if explicit is not None:
        return explicit
    window = config.optional_integer("sliding_window", minimum=0, maximum=MAX_CONTEXT)
    if not window or not config.flag("use_sliding_window", default=True):
        return (Span(layers=layers),)
    pattern = config.optional_integer("sliding_window_pattern", "_sliding_window_pattern", maximum=MAX_LAYERS)
    if pattern is not None:
        return every_nth_full(config, layers, pattern=pattern, window=window)
    full = config.optional_integer("max_window_layers", minimum=0, maximum=MAX_LAYERS)
    if full is not None and config.has("use_sliding_window"):  # Qwen: the first `max_window_layers` layers are full
        full = min(full, layers)
        return tuple(
            s
            for s in (Span(layers=full), Span(layers=layers - full, kind=AttentionKind.SLIDING, window=window))
            if s.layers
        )
    return (Span(layers=layers, kind=AttentionKind.SLIDING, window=window),)
