"""Rows of models priced per sample as cases: names, formats, shares of chips, units."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.calibration import samples
from planner.calibration.facts import shipped_facts
from planner.calibration.model import Row
from planner.calibration.sample_cases import Case, Load
from planner.calibration.sample_models import Stated, edge_of, tokens_of, work_of
from planner.perf.parameters import shipped

NOTHING = Stated(gmacs=None, params_m=None, activations_m=None)


def row(**cells: str) -> Row:
    """Return a row of a file: ResNet-50 on an A100 in int8, offline, unless cells say otherwise."""
    plain = {
        "row_id": "r",
        "source": "a test",
        "engine": "TensorRT 8.6",
        "model": "resnet50",
        "precision": "int8",
        "gpu": "A100 SXM4 80GB",
        "gpus_total": "1",
        "batch_size": "",
        "input_size": "224x224",
        "scenario": "offline",
        "metric_name": "samples_s",
        "metric_value": "40000",
    }
    return plain | cells


def case(**cells: str) -> Case:
    """Return the main case of a row."""
    reading = samples.read([row(**cells)], shipped_facts())
    assert not reading.skipped, reading.skipped
    found = reading.cases[reading.main.index(True)]
    assert isinstance(found, Case)
    return found


def test_work_agrees_with_published_counts() -> None:
    """torchvision's documentation: ResNet-50 4.09, ResNeXt-101 32x4d 7.99 (timm), VGG-16 15.47 GFLOPs (multiply-adds); 433 GOP of arXiv:1911.02549."""
    for name, size, gmacs in (
        ("resnet50", "224x224", 4.09),
        ("timm/vgg16", "224x224", 15.47),
        ("ssd-resnet34", "1200x1200", 216.5),
    ):
        work = work_of(name, size, NOTHING, shipped_facts())
        assert work is not None
        total = sum(p.repeats * (p.flops + p.grouped_flops) for p in work.passes)
        assert total == pytest.approx(2e9 * gmacs, rel=0.05), name


def test_work_grows_with_the_area() -> None:
    at = [work_of("timm/resnet18", f"{edge}x{edge}", NOTHING, shipped_facts()) for edge in (224, 448)]
    assert at[0]
    assert at[1]
    assert at[1].passes[0].flops == pytest.approx(4 * at[0].passes[0].flops, rel=1e-3)
    assert at[1].passes[0].weights == at[0].passes[0].weights


def test_a_model_that_nobody_knows_is_priced_by_its_multiply_adds() -> None:
    stated = Stated(gmacs=2.0, params_m=30.0, activations_m=12.0)
    work = work_of("timm/some_new_net", "224x224", stated, shipped_facts())
    assert work is not None
    assert work.passes[0].flops == 4e9
    assert work.passes[0].matrix_elements == 12e6
    assert work.passes[0].weights == 30e6


def test_sizes_are_read_as_the_sources_write_them() -> None:
    assert [
        tokens_of(t) for t in ("seq 128", "Sequence Length=384", "sequence-length=128", "SQuAD seq<=384", "224x224")
    ] == [
        128,
        384,
        128,
        384,
        None,
    ]
    assert edge_of("Resolution=512x384x1") == 512
    assert edge_of("Criteo") is None


def test_formats_of_mlperf_are_what_the_engine_ran() -> None:
    """BERT's stricter target is met by 16 bits on Ampere and by fp8 on Hopper; all else runs in 8 bits."""
    mlperf = {"source": "MLPerf Inference v3.0 results (mlcommons/inference_results_v3.0)"}
    assert case(**mlperf, model="bert", precision="fp16", input_size="SQuAD seq<=384").format == "fp16"
    assert case(**mlperf, model="bert", precision="fp16", input_size="SQuAD seq<=384", gpu="H100-PCIe").format == "fp8"
    assert case(**mlperf, precision="").format == "int8"
    assert case(**mlperf, precision="fp32", engine="onnxruntime", gpu="T4").format == "fp32"


def test_the_share_of_a_chip() -> None:
    """1g of an A100: a seventh of its compute, an eighth of its memory; of an A30 a quarter of both; a NeuronCore is half a chip."""
    whole, part = case(), case(gpu="A100-80GB-SXM MIG-1g.10gb")
    assert part.peak_flops == pytest.approx(whole.peak_flops / 7)
    assert part.bandwidth == pytest.approx(whole.bandwidth / 8)
    assert case(gpu="A30 MIG-1g.6gb").peak_flops == pytest.approx(330e12 / 4)
    core = case(gpu="Inferentia2", engine="PyTorch 2.1", precision="FP32 / Matmult-BF16")
    assert (core.engine, core.format, core.peak_flops) == ("neuron", "bf16", 95e12)


def test_rows_that_say_too_little_are_skipped_with_the_reason() -> None:
    rows = [
        row(row_id="1", metric_value=""),
        row(row_id="2", metric_name="time_to_train"),
        row(row_id="3", gpu="Abacus 9000"),
        row(row_id="4", model="mystery", input_size=""),
        row(row_id="5", precision="fp99"),
        row(row_id="6", batch_size="abc"),
        row(row_id="7", gpus_total="some"),
    ]
    reading = samples.read(rows, shipped_facts())
    assert not reading.cases
    assert [(s.row_id, s.reason, s.eligible) for s in reading.skipped] == [
        ("1", "no figure", False),
        ("2", "unknown metric", False),
        ("3", "unknown accelerator", True),
        ("4", "no stated shape", False),
        ("5", "format not supported", True),
        ("6", "unreadable cell", False),
        ("7", "unreadable cell", False),
    ]


@pytest.mark.parametrize(
    ("cells", "most", "least"),
    [  # multiply-adds of a sample, 1e9: networks of that task that are not the one that stands for it
        ({"input_size": "seq 128"}, 40.0, 5.0),  # BERT-large 39, DistilBERT 5.4 (85e6 and 302e6 matrix numbers x 128)
        ({"input_size": "224x224", "model": "acme/resnet-mystery"}, 11.6, 1.8),  # ResNet-18 to -152 (torchvision)
        ({"input_size": "Criteo"}, 4.4, 0.6),
        ({"input_size": "1024x1024, 30 steps"}, 300_000.0, 60_000.0),  # SDXL: 6.0e12 FLOPs a pass, two a step
        ({"input_size": "", "notes": 'unit of the source column: "Throughput Avg [img/s]"'}, 60.0, 0.3),
    ],
)
def test_a_model_that_nobody_knows_is_priced_by_its_task(cells: dict[str, str], most: float, least: float) -> None:
    found = case(**({"model": "acme/mystery"} | cells)).work
    assert least < sum(p.repeats * (p.flops + p.grouped_flops) for p in found.passes) / 2e9 < most
    assert found.spread >= 0.5


def test_stated_parameters_say_how_much_an_unknown_encoder_computes() -> None:
    """RoBERTa-base is nearest: 85e6 matrix numbers of 124.6e6 parameters, so 2 x 85e6 x 128 FLOPs and attention; 1.2 times the parameters, 1.2 times that."""
    found = case(model="acme/mystery", input_size="seq 128", params_m="149.5").work
    assert found.passes[0].flops == pytest.approx(1.2 * (2 * 85.05e6 * 128 + 4 * 768 * 12 * 128**2), rel=0.02)
    assert found.passes[0].weights == pytest.approx(149.5e6)


def test_what_is_guessed_has_a_wide_interval_and_says_so() -> None:
    rows = [row(), row(model="acme/mystery")]
    known, guess = samples.figures(samples.read(rows, shipped_facts()), shipped("samples"))
    assert guess.novelty == "new model"
    assert known.high / known.low < 4
    assert guess.high / guess.low > 9


def test_server_rows_are_no_peak() -> None:
    assert case(scenario="server (Poisson, latency-bound)").load is Load.SERVED
    assert case(scenario="single-stream", metric_name="latency_ms_p90").batch == 1.0
    assert case(scenario="multi-stream (8 samples per query)", metric_name="latency_ms_p99").batch == 8.0


def test_neuron_rows_are_read_as_they_ran() -> None:
    """By Little's law rate x latency / batch is the number of batches in work; rows of the AWS Neuron benchmark pages."""
    parallel = {"scenario": "real-time", "notes": "; run mode Data Parallel; whole-instance throughput"}
    # 284 sequences/s x 10.5 ms / 3 = 0.99: one batch in work, on one of four cores
    alone = case(**parallel, model="bert-base", gpu="Inferentia1", gpus_total="4", batch_size="3", input_size="seq 128")
    assert (alone.devices, alone.batch) == (1, 3.0)
    # 3,102 sequences/s x 41 ms / 128 = 0.99: one batch in work, dealt out to sixteen cores
    dealt = case(
        engine="Tensorflow 2.8",
        model="bert-base",
        gpu="Inferentia1",
        gpus_total="16",
        batch_size="128",
        input_size="seq 128",
    )
    assert (dealt.devices, dealt.batch) == (16, 8.0)
    # 443.5 images/s x 2.26 ms = 1.0; 2,000 a minute of "raw output" come from two workers
    assert case(**parallel, model="UNet", gpu="Inferentia2", gpus_total="2", batch_size="1").devices == 1
    raw = case(
        model="bert-base", gpu="Trainium1", gpus_total="32", batch_size="4", input_size="seq 128", notes="Raw Output"
    )
    assert raw.devices == 2


def test_pages_that_say_less_than_their_scripts() -> None:
    """FasterTransformer's EFF-FT drops half of each sequence; scripts of DeepLearningExamples switch XLA on, UNet_Industrial's runs tinyUNet."""
    full = case(model="bert-base", input_size="seq 384", batch_size="32")
    half = case(
        model="bert-base",
        input_size="seq 384",
        batch_size="32",
        notes="EFF-FT removes padding: mean real length is half of seq",
    )
    shorter = case(model="bert-base", input_size="seq 192", batch_size="32")
    assert half.work.passes == shorter.work.passes
    assert half.work.passes[0].flops < 0.5 * full.work.passes[0].flops
    page = "NVIDIA/DeepLearningExamples TensorFlow2/LanguageModeling/BERT/README.md"
    assert (
        case(source=page, engine="TensorFlow2", model="bert-large", input_size="seq 128").engine == "tensorflow 2 xla"
    )
    # 3x3 convolutions of 32, 32, 64, 128 and 256 channels at 512, 256, 128, 64 and 32 pixels, and back: 19.8e9 multiply-adds
    unet = case(model="Segmentation/UNet_Industrial", input_size="Resolution=512x512x1").work
    assert unet.passes[0].flops == pytest.approx(2 * 19.77e9)
    assert unet.passes[0].weights == pytest.approx(1_824_945, rel=1e-3)


def test_figures_are_near_published_ones() -> None:
    """NVIDIA's MLPerf v3.0 offline figures: 40 k images/s on an A100 SXM, 5.9 k on a T4 (v1.0), both known to the fit."""
    reading = samples.read(
        [
            row(source="MLPerf Inference v3.0 results (mlcommons/inference_results_v3.0)"),
            row(
                source="MLPerf Inference v1.0 results (mlcommons/inference_results_v1.0)", gpu="T4", metric_value="5900"
            ),
        ],
        shipped_facts(),
    )
    for figure in samples.figures(reading, shipped("samples")):
        assert abs(math.log(figure.predicted / figure.measured)) < math.log(1.25)
        assert figure.low < figure.predicted < figure.high


def test_more_devices_serve_more_and_larger_batches_are_no_slower() -> None:
    rows = [row(gpus_total=str(n)) for n in (1, 2, 4, 8)] + [row(batch_size=str(b)) for b in (1, 2, 8, 64, 512)]
    predicted = [f.predicted for f in samples.figures(samples.read(rows, shipped_facts()), shipped("samples"))]
    assert np.all(np.diff(predicted[:4]) > 0)
    assert np.all(np.diff(predicted[4:]) > 0)


def test_sizes_that_are_no_images_tell_networks_apart() -> None:
    """GNMT by beams (20.3 of 5.7e9 multiply-adds), Transformer-XL by memory (large: 18 layers of 1,024), WaveGlow by channels."""

    def flops(**cells: str) -> float:
        return sum(p.repeats * p.flops for p in case(**cells).work.passes)

    beams = [flops(model="Translation/GNMT", input_size=f"Beam width={n}") for n in (1, 5)]
    assert beams[1] / beams[0] == pytest.approx(20.3 / 5.7)
    sizes = ("Sequence length=64 Memory length=640", "Sequence length=128 Memory length=1,600")
    assert [case(model="LanguageModeling/Transformer-XL", input_size=s).work.name for s in sizes] == [
        "transformer-xl-base",
        "transformer-xl-large",
    ]
    channels = [case(model="SpeechSynthesis/Tacotron2", input_size=f"WN channels={n}").work.name for n in (512, 256)]
    assert channels == ["tacotron2-waveglow", "tacotron2-waveglow-256"]


def test_generation_decodes_step_by_step() -> None:
    """T5-3B, 128 tokens in, 84 out: 24 layers of 11 x 2048 x ... numbers; the encoder's 1.24e9 read once, the decoder's 1.6e9 84 times."""
    found = case(
        model="t5-3b", input_size="seq 128 in 128 out 84", metric_name="total_tok_s", notes="run mode Tensor Parallel",
        gpu="Trainium1", gpus_total="32", batch_size="1", precision="FP32 / Matmult-BF16",
    )  # fmt: skip
    encoder, decoder = found.work.passes
    assert (encoder.repeats, decoder.repeats, found.work.units_per_item) == (1, 84, 212)
    # A decoder layer: 4 + 4 matrices of 1024 x 4096 and an MLP of 2 x 1024 x 16384; k and v over the encoder's tokens count there.
    layer = 6 * 1024 * 4096 + 2 * 1024 * 16384
    assert decoder.weights == pytest.approx(24 * layer + 32128 * 1024, rel=0.01)
    assert decoder.flops * 212 == pytest.approx(2 * decoder.weights)
    # All-reduces over 32 ranks: five hops after two of seven products.
    assert decoder.products == pytest.approx((13 * 24 + 1) * (1 + 5 * 2 / 7))
    assert found.devices == 1
    assert found.memory_share == pytest.approx(16)  # 32 cores of 16 chips


def test_translation_is_a_step_for_each_token_of_32_sentences() -> None:
    cells = {"model": "OPUS-MT", "metric_name": "output_tok_s", "scenario": "batch translation", "gpu": "A10G"}
    found = case(**cells, engine="CTranslate2 3.6.0", input_size="newstest2014 En-De", precision="fp16")
    assert (found.batch, found.work.units_per_item, found.work.passes[0].repeats) == (32.0, 28.0, 28.0)
    assert not found.compiled  # it launches kernel by kernel
    figures = samples.figures(
        samples.read(
            [row(**cells, engine=e, precision="fp32", metric_value="1") for e in ("CTranslate2", "Transformers")],
            shipped_facts(),
        ),
        shipped("samples"),
    )
    # README of CTranslate2 3.6.0: 5,876 and 1,023 target tokens/s on an A10G.
    for figure, published in zip(figures, (5876.4, 1022.9), strict=True):
        assert published / 2 < figure.predicted < published * 2


def test_speech_decodes_as_many_clips_as_the_cache_holds() -> None:
    """Whisper large-v3 caches 32 layers x 2 x 1,280 numbers of 1,500 positions a clip, 255 MB in 16 bits with its tokens: 73 clips on an L4 of 24e9 bytes."""
    reading = samples.read(
        [row(model="whisper", gpu="L4", precision="bf16", engine="vllm", input_size="LibriSpeech")], shipped_facts()
    )
    largest = samples.Forward(reading.cases).batches[0].max()  # type: ignore[arg-type]  # ours
    assert largest == pytest.approx((0.9 * 24e9 - 2 * 1.54e9) / (2 * 32 * 2 * 1280 * (1500 + 56)), rel=0.05)
    reading = samples.read(
        [row(model="whisper", gpu="B200", precision="fp16", input_size="LibriSpeech")], shipped_facts()
    )
    assert samples.Forward(reading.cases).batches[0].max() == 256  # type: ignore[arg-type]  # ours


def test_frameworks_of_a_name_are_told_apart_where_they_compile() -> None:
    page = "NVIDIA/DeepLearningExamples TensorFlow{}/LanguageModeling/BERT/README.md"
    engines = [
        case(source=page.format(n), engine=f"TensorFlow{n}", model="bert-large", input_size="seq 128").engine
        for n in ("", "2")
    ]
    assert engines == ["tensorflow xla", "tensorflow 2 xla"]
