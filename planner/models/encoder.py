"""Text encoders. One sample = one sequence.

BERT (arXiv:1810.04805), RoBERTa, DistilBERT, ELECTRA, ALBERT, DeBERTa-v2/v3, ModernBERT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.models.assemble import architecture_of, assemble
from planner.models.encoder_stack import EncoderStack, label_count
from planner.models.fields import MAX_CONTEXT, MAX_LAYERS, Fields
from planner.models.sample_work import sample_of
from planner.models.spec import ModelKind, ModelSpec, TensorClass, WorkCurve
from planner.models.tally import Tally

DEFAULT_SEQUENCE = 128


def head_of(config: Fields) -> str:
    """Return which head the architecture's class name says: "mlm", "classification", "span", "pretraining" or "none"."""
    name = architecture_of(config)
    for ending, head in (
        ("ForMaskedLM", "mlm"),
        ("ForSequenceClassification", "classification"),
        ("ForTokenClassification", "tokens"),
        ("ForQuestionAnswering", "span"),
        ("ForPreTraining", "pretraining"),
    ):
        if name.endswith(ending):
            return head
    return "none"


def encoder_spec(
    config: Fields,
    tally: Tally,
    stack: EncoderStack,
    *,
    vocabulary: int,
    context: int | None,
    once: float = 0.0,
    per_token: float = 0.0,
    attention_flops_factor: float = 1.0,
    default_dtype: str = "fp32",
) -> ModelSpec:
    """Return the spec of a text encoder; `once` and `per_token` are matrix numbers of the head used once or at each token."""
    flops = stack.flops()
    curve = WorkCurve(
        what="sequence of {size} tokens",
        image=False,
        flops=(2.0 * once, flops[1] + 2.0 * per_token, flops[2] * attention_flops_factor),
        activations=stack.activations(),
        largest=context,
    )
    return assemble(
        config,
        tally,
        kind=ModelKind.ENCODER,
        hidden_size=stack.hidden,
        layers=stack.layers,
        vocab_size=vocabulary,
        max_context=context,
        attention=(stack.attention(),),
        feed_forward=(stack.feed_forward(),),
        sample=sample_of(curve, min(DEFAULT_SEQUENCE, context or DEFAULT_SEQUENCE)),
        default_dtype=default_dtype,
    )


def _stack(config: Fields) -> EncoderStack:
    hidden, heads = config.integer("hidden_size"), config.head_count()
    return EncoderStack(
        layers=config.layer_count(),
        hidden=hidden,
        heads=heads,
        intermediate=config.integer("intermediate_size"),
        head_dim=config.divisible("hidden_size", hidden, "num_attention_heads", heads),
    )


def read_bert(config: Fields) -> ModelSpec:
    """BERT: token, position and type embeddings with a norm; a pooler unless the head says otherwise."""
    return _bert_like(config, pooler_for=("none", "classification", "pretraining"))


def read_roberta(config: Fields) -> ModelSpec:
    """RoBERTa, XLM-R, CamemBERT: BERT whose classifier has its own dense layer instead of the pooler."""
    return _bert_like(config, pooler_for=("none",), dense_classifier=True)


def _bert_like(config: Fields, *, pooler_for: tuple[str, ...], dense_classifier: bool = False) -> ModelSpec:
    stack, tally, head = _stack(config), Tally(), head_of(config)
    h, vocabulary, context = (
        stack.hidden,
        config.vocabulary(),
        config.integer("max_position_embeddings", maximum=MAX_CONTEXT),
    )
    tally.table("token_embedding", vocabulary, h)
    tally.table("position_embedding", context, h)
    tally.table("type_embedding", config.integer("type_vocab_size", minimum=0, default=2), h)
    tally.norm("norms", h, bias=True)
    stack.add_to(tally)
    once = per_token = 0.0
    if head in pooler_for:
        tally.linear("pooler.dense", TensorClass.OTHER, h, h, bias=True)
        once += h * h
    if head in {"mlm", "pretraining"}:
        per_token += _language_head(tally, h, h, vocabulary)
    if head == "pretraining":
        tally.linear("classifier.out", TensorClass.HEAD, h, 2, bias=True, quantisable=False)
    if head == "classification":
        if dense_classifier:
            tally.linear("classifier.dense", TensorClass.OTHER, h, h, bias=True)
            once += h * h
        tally.linear("classifier.out", TensorClass.HEAD, h, label_count(config), bias=True, quantisable=False)
    if head in {"tokens", "span"}:
        tally.linear("classifier.out", TensorClass.HEAD, h, label_count(config), bias=True, quantisable=False)
    return encoder_spec(config, tally, stack, vocabulary=vocabulary, context=context, once=once, per_token=per_token)


def _language_head(tally: Tally, hidden: int, width: int, vocabulary: int) -> float:
    """Add a masked-language head (dense, norm, decoder tied to the embedding with its own bias); return its matrix numbers."""
    tally.linear("language_head.dense", TensorClass.OTHER, hidden, width, bias=True)
    tally.norm("norms", width, bias=True)
    tally.tied_head("lm_head", vocabulary, width)
    tally.add("lm_head.bias", TensorClass.HEAD, vocabulary)
    return float(hidden * width + vocabulary * width)


def read_distilbert(config: Fields) -> ModelSpec:
    """DistilBERT: no type embeddings, no pooler, its own field names."""
    h, heads = config.integer("dim"), config.head_count("n_heads")
    stack = EncoderStack(
        layers=config.layer_count("n_layers"),
        hidden=h,
        heads=heads,
        intermediate=config.integer("hidden_dim"),
        head_dim=config.divisible("dim", h, "n_heads", heads),
    )
    tally, head, vocabulary = Tally(), head_of(config), config.vocabulary()
    context = config.integer("max_position_embeddings", maximum=MAX_CONTEXT)
    tally.table("token_embedding", vocabulary, h)
    tally.table("position_embedding", context, h)
    tally.norm("norms", h, bias=True)
    stack.add_to(tally)
    once = per_token = 0.0
    if head == "mlm":
        per_token = _language_head(tally, h, h, vocabulary)
    elif head == "classification":
        tally.linear("classifier.dense", TensorClass.OTHER, h, h, bias=True)
        tally.linear("classifier.out", TensorClass.HEAD, h, label_count(config), bias=True, quantisable=False)
        once = float(h * h)
    elif head in {"tokens", "span"}:
        tally.linear("classifier.out", TensorClass.HEAD, h, label_count(config), bias=True, quantisable=False)
    return encoder_spec(config, tally, stack, vocabulary=vocabulary, context=context, once=once, per_token=per_token)


def read_electra(config: Fields) -> ModelSpec:
    """ELECTRA: embeddings of their own width, a discriminator head of one output."""
    stack, tally, head = _stack(config), Tally(), head_of(config)
    h, width, vocabulary = stack.hidden, config.integer("embedding_size"), config.vocabulary()
    context = config.integer("max_position_embeddings", maximum=MAX_CONTEXT)
    tally.table("token_embedding", vocabulary, width)
    tally.table("position_embedding", context, width)
    tally.table("type_embedding", config.integer("type_vocab_size", minimum=0, default=2), width)
    tally.norm("norms", width, bias=True)
    per_token = once = 0.0
    if width != h:
        tally.linear("embedding.project", TensorClass.OTHER, width, h, bias=True)
        per_token += width * h
    stack.add_to(tally)
    if head == "pretraining":
        tally.linear("classifier.dense", TensorClass.OTHER, h, h, bias=True)
        tally.linear("classifier.out", TensorClass.HEAD, h, 1, bias=True, quantisable=False)
        per_token += h * h
    elif head == "mlm":
        per_token += _language_head(tally, h, width, vocabulary)
    elif head == "classification":
        tally.linear("classifier.dense", TensorClass.OTHER, h, h, bias=True)
        tally.linear("classifier.out", TensorClass.HEAD, h, label_count(config), bias=True, quantisable=False)
        once = float(h * h)
    return encoder_spec(config, tally, stack, vocabulary=vocabulary, context=context, once=once, per_token=per_token)


def read_deberta_v2(config: Fields) -> ModelSpec:
    """DeBERTa-v2/v3: relative positions shared with the content projections; three products per attention instead of one."""
    if not config.flag("share_att_key", default=False) and config.flag("relative_attention", default=False):
        raise config.error(
            "share_att_key", "is false; only the published form with shared relative projections is counted"
        )
    stack, tally, head = _stack(config), Tally(), head_of(config)
    h, vocabulary, context = (
        stack.hidden,
        config.vocabulary(),
        config.integer("max_position_embeddings", maximum=MAX_CONTEXT),
    )
    tally.table("token_embedding", vocabulary, h)
    if config.flag("position_biased_input", default=True):
        tally.table("position_embedding", context, h)
    tally.table("type_embedding", config.integer("type_vocab_size", minimum=0, default=0), h)
    tally.norm("norms", h, bias=True)
    relative = config.flag("relative_attention", default=False)
    if relative:
        span = config.integer("max_relative_positions", minimum=-1, maximum=MAX_CONTEXT, default=-1)
        buckets = config.integer("position_buckets", minimum=-1, maximum=MAX_CONTEXT, default=-1)
        tally.table("relative_embedding", 2 * (buckets if buckets > 0 else span if span > 0 else context), h)
        if "layer_norm" in config.text("norm_rel_ebd", default="none"):
            tally.norm("norms", h, bias=True)
    stack.add_to(tally)
    kernel = config.integer("conv_kernel_size", minimum=0, maximum=1000, default=0)
    if kernel:
        tally.linear("convolution.first", TensorClass.CONVOLUTION, h * kernel, h, bias=True)
        tally.norm("norms", h, bias=True)
    once = per_token = 0.0
    if head == "mlm":
        per_token = _language_head(tally, h, h, vocabulary)
    elif head == "classification":
        tally.linear("pooler.dense", TensorClass.OTHER, h, h, bias=True)
        tally.linear("classifier.out", TensorClass.HEAD, h, label_count(config), bias=True, quantisable=False)
        once = float(h * h)
    elif head in {"tokens", "span"}:
        tally.linear("classifier.out", TensorClass.HEAD, h, label_count(config), bias=True, quantisable=False)
    return encoder_spec(
        config,
        tally,
        stack,
        vocabulary=vocabulary,
        context=context,
        once=once,
        per_token=per_token,
        attention_flops_factor=2.0 if relative else 1.0,
    )


def read_albert(config: Fields) -> ModelSpec:
    """ALBERT: one group of layer weights used by every layer, so that work grows with depth and size does not."""
    stack, tally = _stack(config), Tally()
    h, width, vocabulary = stack.hidden, config.integer("embedding_size"), config.vocabulary()
    groups = config.integer("num_hidden_groups", maximum=MAX_LAYERS, default=1) * config.integer(
        "inner_group_num", maximum=MAX_LAYERS, default=1
    )
    context = config.integer("max_position_embeddings", maximum=MAX_CONTEXT)
    tally.table("token_embedding", vocabulary, width)
    tally.table("position_embedding", context, width)
    tally.table("type_embedding", config.integer("type_vocab_size", minimum=0, default=2), width)
    tally.norm("norms", width, bias=True)
    tally.linear("embedding.project", TensorClass.OTHER, width, h, bias=True)
    EncoderStack(
        layers=groups, hidden=h, heads=stack.heads, intermediate=stack.intermediate, head_dim=stack.head_dim
    ).add_to(tally)
    once, per_token = 0.0, float(width * h)
    head = head_of(config)
    if head in {"none", "classification", "pretraining"}:
        tally.linear("pooler.dense", TensorClass.OTHER, h, h, bias=True)
        once = float(h * h)
    if head in {"mlm", "pretraining"}:
        per_token += _language_head(tally, h, width, vocabulary)
    if head in {"classification", "pretraining", "tokens", "span"}:
        tally.linear("classifier.out", TensorClass.HEAD, h, label_count(config), bias=True, quantisable=False)
    return encoder_spec(config, tally, stack, vocabulary=vocabulary, context=context, once=once, per_token=per_token)


def read_modernbert(config: Fields) -> ModelSpec:
    """ModernBERT: gated feed-forward, no biases, rotary positions."""
    attention_bias = config.flag("attention_bias", default=False)
    stack = replace(
        _stack(config),
        gated=True,
        qkv_bias=attention_bias,
        o_bias=attention_bias,
        mlp_bias=config.flag("mlp_bias", default=False),
        norm_bias=config.flag("norm_bias", default=False),
    )
    tally, h, vocabulary, head = Tally(), stack.hidden, config.vocabulary(), head_of(config)
    tally.table("token_embedding", vocabulary, h)
    stack.add_to(tally)
    tally.norm(
        "norms", h, bias=stack.norm_bias
    )  # embedding and final norm, less the first layer's, which is the identity
    per_token = 0.0
    if head != "none":
        tally.linear("language_head.dense", TensorClass.OTHER, h, h, bias=config.flag("classifier_bias", default=False))
        tally.norm("norms", h, bias=stack.norm_bias)
        per_token = float(h * h)
    if head == "mlm":
        tally.tied_head("lm_head", vocabulary, h)
        per_token += float(vocabulary * h)
        if config.flag("decoder_bias", default=True):
            tally.add("lm_head.bias", TensorClass.HEAD, vocabulary)
    elif head != "none":
        tally.linear("classifier.out", TensorClass.HEAD, h, label_count(config), bias=True, quantisable=False)
    return encoder_spec(config, tally, stack, vocabulary=vocabulary, context=config.context(), per_token=per_token)


ENCODER_READERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "bert": read_bert,
    "roberta": read_roberta,
    "xlm-roberta": read_roberta,
    "camembert": read_roberta,
    "distilbert": read_distilbert,
    "electra": read_electra,
    "albert": read_albert,
    "deberta-v2": read_deberta_v2,
    "modernbert": read_modernbert,
}
