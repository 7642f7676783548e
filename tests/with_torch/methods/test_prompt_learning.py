"""The prompt learners: the text tower, each method's own part, the contract, and that they learn."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch", reason="prompt learners need torch")
open_clip = pytest.importorskip("open_clip", reason="prompt learners need an open_clip model")

import exports  # noqa: E402
import lpplusplus  # noqa: E402
import prompt_examples  # noqa: E402
from lpplusplus import PLOT, CoOp, KgCoOp, ProGrad, ZeroShot  # noqa: E402
from lpplusplus._core.parameters import rules_of  # noqa: E402
from lpplusplus.encoders import EncoderError, open_encoder  # noqa: E402
from lpplusplus.encoders.class_text import class_texts  # noqa: E402
from lpplusplus.encoders.open_clip import OpenClipEncoder, pooled_places  # noqa: E402
from lpplusplus.methods._prompts import ContextPrompts, TextTower  # noqa: E402
from lpplusplus.methods._training import CheckpointError  # noqa: E402
from lpplusplus.methods.kgcoop import drift  # noqa: E402
from lpplusplus.methods.plot import transport_plan  # noqa: E402

METHODS = (CoOp, KgCoOp, ProGrad, PLOT)
NAMES = np.array(["ant", "red_fox", "great white shark"])
VISION = exports.CONFIGS["lpp-tiny-vit"]["vision_cfg"]
EXTRA = {
    # The text tower apart from the model, and with attention in both directions, read at the last token.
    "lpp-tiny-custom": {"custom_text": True, "text_cfg": {**exports.TEXT, "proj_bias": True}},
    "lpp-tiny-last": {
        "custom_text": True, "text_cfg": {**exports.TEXT, "no_causal_mask": True, "pool_type": "last"},
    },
    "lpp-tiny-coca": {
        "text_cfg": {**exports.TEXT, "embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {"width": 32, "heads": 2, "layers": 1, "context_length": 76, "dim_head": 16},
        "vision_cfg": {**VISION, "attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True},
        "custom_text": True,
    },
    "lpp-tiny-timm": {"vision_cfg": {"timm_model_name": "resnet18", "image_size": 64}, "text_cfg": exports.TEXT},
}  # fmt: skip
exports.CONFIGS |= {
    arch: {"embed_dim": 32, "vision_cfg": VISION, **config} for arch, config in EXTRA.items()
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """For matrices this small more threads only wait for each other, for minutes where something else runs as well."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Encoders of small models with random weights, by architecture."""
    folder, encoders = tmp_path_factory.mktemp("checkpoints"), {}

    def open_once(arch):
        if arch not in encoders:
            _, path = exports.write_checkpoint(arch, folder)
            encoders[arch] = open_encoder(f"open_clip:{arch}/{path}")
        return encoders[arch]

    return open_once


@pytest.fixture(scope="module")
def encoder(opened):
    return opened("lpp-tiny-vit")


@pytest.fixture(scope="module")
def task():
    """Tokens (N, V, 1 + L, D) and labels of three classes, and held-out ones of one view."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((3, 1, 32))
    y = np.arange(12) % 3
    X = (centres[y][:, None] + 0.5 * rng.standard_normal((12, 2, 6, 32))).astype(np.float32)
    X_test = (centres[y] + 0.5 * rng.standard_normal((12, 6, 32))).astype(np.float32)
    return X, NAMES[y], X_test, NAMES[y]


def suited(method, X):
    """Of tokens along the last axis but one, what the method takes."""
    return X if method is PLOT else X[..., 0, :]


def words_of(tower, phrase):
    """The embedded words of a phrase."""
    return tower.embed(tower.word_tokens(phrase)).detach()


# The tower -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["lpp-tiny-vit", "lpp-tiny-rn50", "lpp-tiny-custom", "lpp-tiny-last"])
def test_the_tower_fed_with_a_prompts_embeddings_is_encode_text(arch, opened):
    encoder = opened(arch)
    tower = TextTower(encoder)
    tokens, counts = tower.tokens(exports.TEXTS)
    with torch.no_grad():
        features = tower.features(tower.embed(tokens), tokens).numpy()
        short = tower.trimmed(tokens[:3])
        again = tower.features(tower.embed(short), short).numpy()
    expected = encoder.encode_texts(exports.TEXTS)
    assert np.abs(features - expected).max() < 1e-5
    assert np.abs(again - expected[:3]).max() < 1e-5
    assert short.shape[1] == (77 if arch == "lpp-tiny-last" else counts[:3].max())
    assert counts[-1] > 77


@pytest.mark.parametrize("arch", ["lpp-tiny-vit", "lpp-tiny-rn50", "lpp-tiny-last"])
@pytest.mark.parametrize(
    ("position", "written"),
    [("end", "a photo of a {}."), ("middle", "a photo {} of a."), ("front", "{} a photo of a.")],
)
def test_context_vectors_that_are_words_make_the_written_prompt(arch, position, written, opened):
    encoder = opened(arch)
    tower = TextTower(encoder)
    names = ["ant", "great white shark", "x", "x ray of an x"]  # "x" also marks the free places.
    prompts = ContextPrompts(tower, names, 4, position)
    words = words_of(tower, "a photo of a")
    with torch.no_grad():
        shared = prompts(words[None]).numpy()
        own = prompts(words.expand(4, -1, -1)).numpy()
    expected = encoder.encode_texts([written.format(name) for name in names])
    assert np.abs(shared - expected).max() < 1e-5
    assert np.abs(own - expected).max() < 1e-5


def test_other_towers_are_refused_by_name(opened):
    with pytest.raises(EncoderError, match=r"lpp-tiny-coca.*a TextTransformer with a class token"):
        TextTower(opened("lpp-tiny-coca"))
    with pytest.raises(EncoderError, match=r"lpp-tiny-coca.*a VisionTransformer with a pooler"):
        opened("lpp-tiny-coca").encode_places([np.zeros((3, 64, 64), np.float32)])
    with pytest.raises(EncoderError, match=r"lpp-tiny-timm.*a TimmModel"):
        opened("lpp-tiny-timm").encode_places([np.zeros((3, 64, 64), np.float32)])
    with pytest.raises(EncoderError, match="encoder='embedded': CoOp needs the gradient of the text tower"):
        CoOp(encoder="embedded").fit(np.eye(3), NAMES)


def test_half_precision_stays_close(encoder):
    """As on a GPU, with the half precision that processors have."""
    texts = ["a photo of a cat.", "two red stars"]
    tower = TextTower(encoder, torch.bfloat16)
    tokens, _ = tower.tokens(texts)
    embedded = tower.embed(tokens).detach().requires_grad_()
    features = tower.features(embedded, tokens)
    features.sum().backward()
    assert features.dtype == torch.float32
    assert embedded.grad.abs().max() > 0
    expected = torch.from_numpy(encoder.encode_texts(texts))
    assert torch.cosine_similarity(features, expected).min() > 0.999
    assert not torch.equal(features, expected)


def test_a_name_that_is_too_long(encoder):
    names = ["ant", "very " * 60 + "long"]
    with pytest.raises(
        ValueError, match=r"class 'very very .* long' is too long for 16 context vectors: .* take 80 to"
    ):
        CoOp(encoder=encoder).fit(np.ones((2, 32)), names)
    CoOp(encoder=encoder, n_context=13, epochs=1).fit(np.ones((2, 32)), names)


def test_names_that_read_the_same(encoder):
    names = ["red_fox", "ant", "Red fox"]
    with pytest.raises(ValueError, match="classes 'red_fox' and 'Red fox' read the same"):
        CoOp(encoder=encoder, epochs=1).fit(np.eye(3, 32), names, classes=names)
    model = CoOp(encoder=encoder, epochs=1, class_specific=True).fit(np.eye(3, 32), names, classes=names)
    assert model.context_.shape == (3, 16, 32)
    assert not np.allclose(model.coef_[0], model.coef_[2])


def test_names_apart_from_labels(encoder, task, tmp_path):
    X, y, X_test, _ = task
    named = CoOp(encoder=encoder, epochs=2).fit(X[:, :, 0], y, classes=NAMES)
    index = np.array([list(NAMES).index(name) for name in y])
    numbered = CoOp(encoder=encoder, epochs=2, class_names=list(NAMES)).fit(X[:, :, 0], index)
    assert np.array_equal(numbered.coef_, named.coef_)
    assert np.array_equal(NAMES[numbered.predict(X_test[:, 0])], named.predict(X_test[:, 0]))
    numbered.save(tmp_path / "model.lpp")
    assert lpplusplus.load(tmp_path / "model.lpp").class_names == tuple(NAMES)
    with pytest.raises(ValueError, match=r"class_names has 2 names for 3 classes"):
        CoOp(encoder=encoder, class_names=["ant", "bee"]).fit(np.eye(3, 32), [0, 1, 2])


def test_names_that_are_given_may_repeat(encoder):
    """As two of ImageNet's do; both classes then have the same scores."""
    model = CoOp(encoder=encoder, epochs=1, class_names=["crane", "ant", "crane"]).fit(np.eye(3, 32), ["a", "b", "c"])
    assert np.array_equal(model.coef_[0], model.coef_[2])
    assert "classes 'a' and 'c' read the same in a prompt" in model.history_.notes[0]


def test_labels_must_be_names(encoder):
    with pytest.raises(ValueError, match="class 0 has no name, and a prompt needs one"):
        CoOp(encoder=encoder).fit(np.eye(3, 32), [0, 1, 2])
    with pytest.raises(ValueError, match="class 1 has no name"):
        CoOp(encoder=encoder, class_names=["ant", " ", "bee"]).fit(np.eye(3, 32), [0, 1, 2])


@pytest.mark.parametrize("own", [False, True])
def test_chunks_within_a_memory_budget_change_nothing(own, opened):
    model = opened("lpp-tiny-vit")
    encoder = OpenClipEncoder.of(model.model, model.tokenizer, "double")
    encoder.model.double()  # Sums in another order differ by rounding, which is then far below what a mistake would do.
    tower = TextTower(encoder)
    names = [f"thing {i}" for i in range(40)]
    shape = (40 if own else 1, 5, 32)
    start = 0.02 * torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    results, kept = [], []
    for memory in (None, 0.5):
        prompts = ContextPrompts(tower, names, 5, memory_mib=memory)
        context = start.clone().requires_grad_()
        sizes = {}

        def note(tensor, sizes=sizes):
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            features = prompts(context)
        features.square().sum().backward()
        results.append((features.detach(), context.grad))
        kept.append(sum(sizes.values()))
    assert 1 <= prompts.chunk < 20
    assert prompts._kept(prompts.chunk) < 2**19 + prompts._kept(1)  # The weights are kept anyhow.
    assert kept[1] < kept[0] / 5
    for whole, chunked in zip(*results, strict=True):
        assert whole.dtype == torch.float64
        assert torch.allclose(whole, chunked, rtol=1e-10, atol=1e-10)
    with pytest.raises(ValueError, match=r"memory_mib=0.01 does not hold a single prompt"):
        ContextPrompts(tower, names, 5, memory_mib=0.01)


def test_a_process_grows_by_less_than_the_budget(tmp_path):
    """Four layers of 256: without a budget this step takes some 900 MiB. In a process of its own, as memory is."""
    config = {"embed_dim": 32, "vision_cfg": VISION, "text_cfg": {**exports.TEXT, "width": 256, "layers": 4}}
    (tmp_path / "lpp-wide-text.json").write_text(json.dumps(config))
    lines = (
        "import open_clip, sys, warnings",
        "from benchmarks.prompt_cost import memory",
        "open_clip.add_model_config(sys.argv[1])",
        "print(memory('lpp-wide-text', 600, 150))",
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines), str(tmp_path)], cwd=root, capture_output=True, text=True, check=True
    )
    assert 20 < float(done.stdout) < 150


@pytest.mark.parametrize("arch", ["lpp-tiny-vit", "lpp-tiny-rn50"])
def test_places_of_images(arch, opened):
    encoder = opened(arch)
    batch = [encoder.prepare(image) for image in exports.images()]
    places = encoder.encode_places(batch)
    assert places.shape == (5, 17 if arch == "lpp-tiny-vit" else 5, 32)
    assert np.abs(places[:, 0] - encoder.encode_prepared(batch)).max() < 1e-5
    visual, images = encoder.model.visual, torch.from_numpy(np.stack(batch))
    with torch.no_grad():
        if arch == "lpp-tiny-vit":
            visual.output_tokens = True
            expected = visual(images)[1] @ visual.proj
            visual.output_tokens = False
        else:
            x = visual.stem(images)
            for layer in (visual.layer1, visual.layer2, visual.layer3, visual.layer4):
                x = layer(x)
            every = pooled_places(visual.attnpool, x)
            assert np.abs(every[:, 0].numpy() - encoder.encode_prepared(batch)).max() < 1e-5
            expected = every[:, 1:]
    assert np.abs(places[:, 1:] - expected.numpy()).max() < 1e-5


# Each method's own part --------------------------------------------------------------------------------------------


def test_gradient_of_coop_against_finite_differences(tmp_path):
    _, path = exports.write_checkpoint("lpp-tiny-vit", tmp_path)
    encoder = open_encoder(f"open_clip:lpp-tiny-vit/{path}")
    encoder.model.double()
    prompts = ContextPrompts(TextTower(encoder), ["ant", "red fox", "shark"], 4)
    rng = np.random.default_rng(0)
    F = torch.nn.functional.normalize(torch.from_numpy(rng.standard_normal((6, 32))), dim=1)
    y = torch.arange(6) % 3
    model = CoOp(encoder=encoder)
    model.logit_scale_ = 20.0

    def loss(context):
        return torch.nn.functional.cross_entropy(model._scores(F, model._text(prompts, context)), y)

    start = torch.from_numpy(rng.standard_normal((1, 4, 32)))
    leaf = start.clone().requires_grad_()
    loss(leaf).backward()
    for _ in range(5):
        direction = torch.from_numpy(rng.standard_normal(start.shape))
        with torch.no_grad():
            difference = (loss(start + 1e-5 * direction) - loss(start - 1e-5 * direction)).item() / 2e-5
        assert difference == pytest.approx((leaf.grad * direction).sum().item(), rel=1e-6, abs=1e-9)


def test_coop_is_sgd_on_what_encode_text_says(encoder, task):
    """Five epochs written out: open_clip's `encode_text`, the vectors put in by a hook, and torch's own schedulers."""
    X, y, *_ = task
    model = CoOp(encoder=encoder, n_context=3, epochs=5, batch_size=5, random_state=7).fit(X[:, :, 0], y, classes=NAMES)
    rng = np.random.default_rng(7)
    context = torch.from_numpy(rng.normal(0, 0.02, (3, 32))).float().requires_grad_()
    order = torch.Generator().manual_seed(int(rng.integers(2**31)))
    tokens = encoder.tokenizer(["x x x ant.", "x x x red fox.", "x x x great white shark."])

    def put_in(module, inputs, output):
        return torch.cat([output[:, :1], context.expand(3, -1, -1), output[:, 4:]], dim=1)

    optimiser = torch.optim.SGD([context], 2e-3, momentum=0.9, weight_decay=5e-4)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 5)
    F = torch.nn.functional.normalize(torch.from_numpy(X[:, :, 0]), dim=-1)
    labels = torch.from_numpy(np.array([list(NAMES).index(name) for name in y]))
    handle = encoder.model.token_embedding.register_forward_hook(put_in)
    try:
        for epoch in range(5):
            for rows in torch.randperm(12, generator=order).split(5):
                T = torch.nn.functional.normalize(encoder.model.encode_text(tokens), dim=-1)
                z = encoder.model.logit_scale.exp() * F[rows, epoch % 2] @ T.T
                optimiser.param_groups[0]["lr"] = 1e-5 if epoch == 0 else falling.get_last_lr()[0]
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(z, labels[rows]).backward()
                optimiser.step()
            if epoch > 0:
                optimiser.param_groups[0]["lr"] = falling.get_last_lr()[0]
                falling.step()
    finally:
        handle.remove()
    assert np.abs(model.context_[0] - context.detach().numpy()).max() < 1e-5
    assert np.abs(model.context_[0]).max() > 0.1  # It has moved.


@pytest.mark.parametrize(("shots", "epochs"), [(1, 50), (2, 100), (4, 100), (8, 200), (16, 200)])
def test_epochs_by_shots(shots, epochs):
    from lpplusplus._core.task import Task

    y = np.arange(3 * shots) % 3
    schedule = CoOp(encoder="open_clip:any")._schedule(Task(np.ones((len(y), 2)), y, np.arange(3)))
    assert (schedule.epochs, schedule.batch_size, schedule.learning_rate) == (epochs, 32, 2e-3)


@pytest.mark.parametrize("projection", [1.0, 0.8])
def test_prograds_step_in_training(projection, encoder, task, monkeypatch):
    """The gradient that the optimiser is given, from the two losses written out."""
    X, y, *_ = task
    seen, met = [], set()
    original = ProGrad._backward

    def spy(self, step):
        loss = original(self, step)
        seen.append(step.context.grad.clone())
        fresh = step.context.detach().clone().requires_grad_()
        T = self._text(prompts[0], fresh)
        z, zero = (self.logit_scale_ * step.images @ rows.T for rows in (T, step.hand))
        own = torch.autograd.grad(torch.nn.functional.cross_entropy(z, step.y), fresh, retain_graph=True)[0]
        divergence = torch.nn.functional.kl_div(z.log_softmax(1), zero.softmax(1), reduction="batchmean")
        teacher = torch.autograd.grad(divergence, fresh)[0]  # Differs from the loss by a constant.
        inner = (own * teacher).sum()
        met.add(bool(inner < 0))
        expected = own - projection * inner / teacher.square().sum() * teacher if inner < 0 else own
        assert torch.allclose(seen[-1], expected, rtol=1e-3, atol=1e-5)
        return loss

    prompts = [ContextPrompts(TextTower(encoder), ["ant", "red fox", "great white shark"], 16)]
    monkeypatch.setattr(ProGrad, "_backward", spy)
    ProGrad(encoder=encoder, projection=projection, epochs=30, learning_rate=0.02).fit(X[:, :, 0], y, classes=NAMES)
    assert met == {True, False}


def test_prograd_begins_at_the_templates_words(encoder, task):
    X, y, *_ = task
    tower = TextTower(encoder)
    model = ProGrad(encoder=encoder, templates="a blurry photo of {}.", epochs=0).fit(X[:, :, 0], y, classes=NAMES)
    assert model.context_.shape == (1, 16, 32)
    assert not model.context_[0, :12].any()
    assert np.array_equal(model.context_[0, 12:], words_of(tower, "a blurry photo of").numpy())
    plain = ProGrad(encoder=encoder, templates="{}.", epochs=0).fit(X[:, :, 0], y, classes=NAMES)
    assert plain.context_[0].std() == pytest.approx(0.02, rel=0.1)


TYPE_OF_PET = "a type of pet, a photo of a {}."


def test_prograd_counts_words_as_its_authors_do(encoder, task):
    """Their construction, written out: 8 words and 9 tokens, so the ninth, "a", stays fixed before the name.

    The prompt is "X" eight times, then the template; the context takes the place of its first 16 tokens. It begins
    with eight zeros, then the template's first eight tokens.
    """
    X, y, *_ = task
    model = ProGrad(encoder=encoder, templates=TYPE_OF_PET, epochs=0).fit(X[:, :, 0], y, classes=NAMES)
    phrase = encoder.tokenizer(["a type of pet, a photo of a"])[0]
    tokens = encoder.tokenizer([" ".join(["X"] * 8) + " a type of pet, a photo of a red fox."])
    with torch.no_grad():
        context = torch.zeros(16, 32)
        context[8:] = encoder.model.token_embedding(phrase[1:9])
        embedded = encoder.model.token_embedding(tokens)
        embedded[0, 1:17] = context
        feature = TextTower(encoder).features(embedded, tokens)
    assert model.context_.shape == (1, 16, 32)
    assert np.array_equal(model.context_[0], context.numpy())
    expected = torch.nn.functional.normalize(feature)[0].numpy()
    assert np.allclose(model.coef_[1] / model.logit_scale_, expected, atol=1e-5)


@pytest.mark.parametrize("memory_mib", [None, 0.5])
@pytest.mark.parametrize("method", METHODS)
def test_a_phrase_with_a_comma_begins_at_the_written_prompt(method, memory_mib, encoder, task):
    """With as many vectors as words there are no zeros; what stays fixed is not trained."""
    X, y, *_ = task
    model = method(
        encoder=encoder, context_init="a type of pet, a photo of a", n_context=8, epochs=0, memory_mib=memory_mib
    ).fit(suited(method, X), y, classes=NAMES)
    written = class_texts(encoder, ["ant", "red fox", "great white shark"], TYPE_OF_PET)
    learned = model.prompts_[0] if method is PLOT else model.coef_
    assert np.allclose(learned / np.linalg.norm(learned, axis=1, keepdims=True), written, atol=1e-5)
    assert model.context_.shape[-2:] == (8, 32)


def test_kgcoops_penalty_is_zero_at_the_hand_written_prompt(encoder, task):
    X, y, X_test, _ = task
    model = KgCoOp(encoder=encoder, epochs=0).fit(X[:, :, 0], y, classes=NAMES)
    learned = torch.from_numpy(model.coef_ / model.logit_scale_)
    hand = torch.from_numpy(class_texts(encoder, ["ant", "red fox", "great white shark"]))
    assert abs(drift(learned, hand)) < 1e-6
    assert drift(learned, hand.roll(1, 0)) > 1e-3
    zero = ZeroShot(logit_scale=model.logit_scale_).fit(X[:, 0, 0], y, text=hand.numpy(), classes=NAMES)
    assert np.allclose(model.decision_function(X_test[:, 0]), zero.decision_function(X_test[:, 0]), atol=1e-4)


def test_kgcoop_stays_nearer_the_hand_written_prompt(encoder, task):
    X, y, *_ = task
    far = {}
    for penalty in (0.0, 8.0):
        model = KgCoOp(encoder=encoder, penalty=penalty, epochs=30).fit(X[:, :, 0], y, classes=NAMES)
        far[penalty] = drift(torch.from_numpy(model.coef_ / model.logit_scale_), torch.from_numpy(model.text_))
    assert far[8.0] < far[0.0] / 2
    same = CoOp(encoder=encoder, context_init="a photo of a", epochs=30).fit(X[:, :, 0], y, classes=NAMES)
    model = KgCoOp(encoder=encoder, penalty=0.0, epochs=30).fit(X[:, :, 0], y, classes=NAMES)
    assert np.allclose(model.coef_, same.coef_)


# Transport -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_plans_have_their_marginals(library):
    cost = 1 - np.random.default_rng(0).uniform(-1, 1, (3, 2, 49, 4))
    plan = np.asarray(transport_plan(cost if library == "numpy" else torch.from_numpy(cost), 0.1, 1000, 1e-9))
    assert np.allclose(plan.sum(-2), 1 / 4, atol=1e-12)
    assert np.allclose(plan.sum(-1), 1 / 49, atol=1e-9)
    assert (plan > 0).all()


@pytest.mark.parametrize("iterations", [1, 3, 10, 100])
@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0])
def test_plans_agree_with_pot(iterations, epsilon):
    import ot  # POT

    cost = 1 - np.random.default_rng(1).uniform(-1, 1, (3, 49, 4))
    plans = transport_plan(cost, epsilon, iterations, 0.0)
    for one, plan in zip(cost, plans, strict=True):
        # POT begins with the other side: columns hold exactly there where rows do here.
        expected = ot.sinkhorn(
            np.full(4, 1 / 4), np.full(49, 1 / 49), one.T, epsilon, numItermax=iterations, stopThr=0, warn=False
        )
        assert np.allclose(plan, expected.T, rtol=1e-10, atol=1e-14)


def test_a_plan_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(2)
    costs = 1 - rng.uniform(-1, 1, (6, 10, 4)) * np.array([0.01, 0.1, 0.3, 0.5, 0.8, 1.0])[:, None, None]
    together = transport_plan(costs)
    for cost, plan in zip(costs, together, strict=True):
        assert np.allclose(transport_plan(cost), plan, rtol=1e-12)


@pytest.mark.parametrize("global_term", [False, True])
def test_plot_by_hand(global_term, encoder, task):
    X, y, X_test, _ = task
    model = PLOT(encoder=encoder, epochs=2, n_prompts=3, global_term=global_term).fit(X, y, classes=NAMES)
    assert model.context_.shape == (3, 1, 16, 32)
    prompts = ContextPrompts(TextTower(encoder), ["ant", "red fox", "great white shark"], 16)
    with torch.no_grad():
        raw = np.stack([prompts(torch.from_numpy(context)).numpy() for context in model.context_])
    assert np.allclose(model.prompts_, raw, atol=1e-5)
    F = X_test / np.linalg.norm(X_test, axis=-1, keepdims=True)
    expected = np.empty((len(F), 3))
    for i, tokens in enumerate(F):
        for k in range(3):
            prompts = model.prompts_[:, k] / np.linalg.norm(model.prompts_[:, k], axis=1, keepdims=True)
            cosines = (tokens[1:] @ prompts.T).astype(np.float64)
            kernel, r, c = np.exp(-(1 - cosines) / 0.1), np.ones(5), np.ones(3)
            for _ in range(100):
                before, r = r, 1 / 5 / (kernel @ c)
                c = 1 / 3 / (kernel.T @ r)
                if np.abs(r - before).mean() < 1e-2:
                    break
            expected[i, k] = (r[:, None] * kernel * c * cosines).sum()
            if global_term:
                mean = model.prompts_[:, k].mean(axis=0)
                expected[i, k] += tokens[0] @ mean / np.linalg.norm(mean)
    assert np.allclose(model.decision_function(X_test), model.logit_scale_ * expected, atol=1e-4)


def test_plots_global_term_is_that_of_its_authors():
    """They average the prompts' raw features, and normalise the mean: a longer feature counts more."""
    rng = np.random.default_rng(0)
    images, text = torch.from_numpy(rng.standard_normal((5, 7, 8))), torch.from_numpy(rng.standard_normal((4, 3, 8)))
    images = torch.nn.functional.normalize(images, dim=-1)
    text[0] *= 10
    scores = []
    for global_term in (True, False):
        model = PLOT(encoder="open_clip:any", global_term=global_term)
        model.logit_scale_ = 100.0
        scores.append(model._scores(images, text))
    theirs = 100 * images[:, 0] @ torch.nn.functional.normalize(text.mean(dim=0), dim=1).T
    assert torch.allclose(scores[0] - scores[1], theirs)
    of_unit = torch.nn.functional.normalize(torch.nn.functional.normalize(text, dim=2).mean(dim=0), dim=1)
    assert not torch.allclose(theirs, 100 * images[:, 0] @ of_unit.T, atol=1)


def test_the_shape_of_plots_images_is_checked(encoder, task):
    X, y, X_test, y_test = task
    model = PLOT(encoder=encoder, epochs=1)
    with pytest.raises(ValueError, match=r"X has shape \(12, 32\), but PLOT takes .*encode_places"):
        model.fit(X[:, 0, 0], y)
    with pytest.raises(ValueError, match=r"X_val has shape \(12, 32\), but PLOT takes \(images, 1 \+ places, D\)"):
        model.fit(X, y, X_val=X_test[:, 0], y_val=y_test)
    model.fit(X[:, 0], y)  # One view an image.
    with pytest.raises(ValueError, match="7 features, but PLOT is expecting 32"):
        model.predict(X_test[..., :7])
    bad = X_test.copy()
    bad[3, 2] = 0
    with pytest.raises(ValueError, match="X is zero throughout row 3"):
        model.predict(bad)


# The contract --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("validation", [False, True])
def test_fit_predict_save_load(method, validation, encoder, task, tmp_path):
    X, y, X_test, y_test = (suited(method, part) if part.ndim > 1 else part for part in task)
    extra = {"X_val": X_test, "y_val": y_test} if validation else {}
    model = method(encoder=encoder.spec, epochs=12, learning_rate=0.02).fit(X, y, classes=NAMES, **extra)
    assert list(model.classes_) == list(NAMES)
    if method is not KgCoOp:  # Which is held at what a tower of random weights says of the names.
        assert model.score(X_test, y_test) > 0.5
    assert np.allclose(model.predict_proba(X_test).sum(axis=1), 1, atol=1e-6)
    assert (model.encoder_, model.fingerprint_) == (encoder.spec, encoder.fingerprint)
    model.save(tmp_path / "model.lpp", metadata={"about": "test"})
    again = lpplusplus.load(tmp_path / "model.lpp")
    assert type(again) is method
    assert np.array_equal(again.decision_function(X_test), model.decision_function(X_test))
    assert np.array_equal(again.context_, model.context_)
    assert again.history_ == model.history_
    assert again.get_params() == model.get_params()
    assert (again.encoder_, again.fingerprint_, again.metadata_) == (
        encoder.spec, encoder.fingerprint, {"about": "test"},
    )  # fmt: skip
    if validation:
        accuracy = model.history_["validation_accuracy"]
        assert model.epoch_ == 1 + int(np.argmax(accuracy))
        assert model.score(X_test, y_test) == pytest.approx(max(accuracy))
    else:
        assert model.epoch_ == 12


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_model_predicts_without_torch(method, encoder, task, tmp_path):
    X, y, X_test, _ = (suited(method, part) if part.ndim > 1 else part for part in task)
    model = method(encoder=encoder, epochs=2, progress=lambda *_: None).fit(X, y)
    model.save(tmp_path / "model.lpp")
    np.save(tmp_path / "X.npy", X_test)
    for name in ("torch", "open_clip"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')")
    code = (
        "import numpy as np, lpplusplus; m = lpplusplus.load('model.lpp'); X = np.load('X.npy')\n"
        "np.save('z.npy', m.decision_function(X)); print(*m.predict(X), sep=',', end=';'); print(m.encoder)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert out.strip() == f"{','.join(model.predict(X_test))};{encoder.spec}"
    assert np.allclose(np.load(tmp_path / "z.npy"), model.decision_function(X_test), atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_tensors_seeds_and_the_callers_arrays(method, encoder, task):
    X, y, X_test, _ = (suited(method, part) if part.ndim > 1 else part for part in task)
    given, copy = X.copy(), X.copy()
    model = method(encoder=encoder, epochs=3, random_state=1)
    arrays = clone(model).fit(given, y).decision_function(X_test)
    tensors = clone(model).fit(torch.from_numpy(given), y).decision_function(torch.from_numpy(X_test))
    assert np.array_equal(given, copy)
    assert isinstance(tensors, torch.Tensor)
    assert np.allclose(tensors.numpy(), arrays, atol=1e-4)
    assert arrays.dtype == np.float32
    assert np.array_equal(clone(model).fit(given, y).decision_function(X_test), arrays)
    assert not np.allclose(clone(model).set_params(random_state=2, batch_size=4).fit(given, y)
                           .decision_function(X_test), arrays)  # fmt: skip
    double = clone(model).fit(given.astype(np.float64), y).decision_function(X_test)
    assert double.dtype == np.float64
    assert np.allclose(double, arrays, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_views_are_used_in_turn(method, encoder, task):
    X, y, X_test, _ = (suited(method, part) if part.ndim > 1 else part for part in task)
    model = method(encoder=encoder, epochs=4)
    same = clone(model).fit(np.repeat(X[:, :1], 2, axis=1), y).decision_function(X_test)
    single = clone(model).fit(X[:, 0], y).decision_function(X_test)
    several = clone(model).fit(X, y).decision_function(X_test)
    assert np.allclose(same, single, atol=1e-5)
    assert not np.allclose(several, single, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_cloning_shares_the_encoder_and_parameters_are_all_named(method, encoder):
    model = method(encoder=encoder, n_context=3)
    twin = clone(model)
    assert twin.encoder is encoder
    assert twin.n_context == 3
    assert set(model.get_params()) == set(rules_of(method))
    with pytest.raises(TypeError, match="unexpected keyword argument 'contexts'"):
        method(encoder=encoder, contexts=4)
    with pytest.raises(TypeError, match="encoder"):
        method()
    for name in ("encoder", "templates"):
        with pytest.raises(ValueError, match=f"{method.__name__}: {name}="):
            method(**{"encoder": encoder, name: object()}).fit(np.eye(3, 32), NAMES)


def test_a_class_without_examples_and_given_text(encoder, task):
    X, y, *_ = task
    some = y != "ant"
    text = np.random.default_rng(0).standard_normal((3, 32))
    model = ProGrad(encoder=encoder, epochs=2).fit(X[some, :, 0], y[some], text=text, classes=NAMES)
    assert model.predict_proba(X[:, 0, 0]).shape == (12, 3)
    assert np.allclose(model.text_, text / np.linalg.norm(text, axis=1, keepdims=True))
    default = ProGrad(encoder=encoder, epochs=2).fit(X[some, :, 0], y[some], classes=NAMES)
    assert np.allclose(default.text_, class_texts(encoder, ["ant", "red fox", "great white shark"]))


def test_embeddings_of_another_model_are_refused(encoder):
    with pytest.raises(ValueError, match=r"X has 5 columns but open_clip:.* gives 32"):
        CoOp(encoder=encoder).fit(np.eye(3, 5), NAMES)
    with pytest.raises(ValueError, match="X is zero throughout row 1"):
        CoOp(encoder=encoder).fit(np.diag([1.0, 0, 1]) @ np.eye(3, 32), NAMES)
    with pytest.raises(ValueError, match="device='cuda', but the encoder is on cpu"):
        CoOp(encoder=encoder, device="cuda").fit(np.eye(3, 32), NAMES)
    with pytest.raises(ValueError, match=r"context_init='a photo of a' has 4 words for n_context=2 vectors"):
        CoOp(encoder=encoder, n_context=2, context_init="a photo of a").fit(np.eye(3, 32), NAMES)
    with pytest.raises(ValueError, match="context_init='_' has no words"):
        CoOp(encoder=encoder, context_init="_").fit(np.eye(3, 32), NAMES)


def test_a_diverging_fit_says_what_to_do(encoder, task):
    X, y, *_ = task
    with pytest.raises(FloatingPointError, match=r"the loss is .* in epoch \d: lower learning_rate=1e\+30"):
        CoOp(encoder=encoder, epochs=9, learning_rate=1e30, weight_decay=1e30).fit(X[:, 0, 0], y)


def test_the_bar_shows_loss_and_validation(encoder, task, capsys):
    X, y, X_test, y_test = task
    CoOp(encoder=encoder, epochs=3, progress=True).fit(X[:, 0, 0], y, X_val=X_test[:, 0], y_val=y_test)
    shown = capsys.readouterr().err
    assert "3/3" in shown
    assert "loss=" in shown
    assert "validation=" in shown


# Interruptions -------------------------------------------------------------------------------------------------------


class Stop:
    """Ctrl-C after some epochs."""

    def __init__(self, after):
        self.after = after

    def __call__(self, done, total):
        if done == self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupted_fit_goes_on_as_if_it_had_not_been(method, encoder, task, tmp_path):
    X, y, X_test, y_test = (suited(method, part) if part.ndim > 1 else part for part in task)
    data = {"X": X, "y": y, "X_val": X_test, "y_val": y_test}
    settings = {"encoder": encoder, "epochs": 7, "batch_size": 5, "learning_rate": 0.02}
    expected = method(**settings).fit(**data)
    model = method(**settings, checkpoint=tmp_path / "fit.ckpt", progress=Stop(3))
    with pytest.raises(KeyboardInterrupt):
        model.fit(**data)
    assert not hasattr(model, "context_")
    with pytest.raises(KeyboardInterrupt):
        model.set_params(progress=Stop(5)).fit(**data)
    model.set_params(progress=None, memory_mib=100).fit(**data)
    assert np.array_equal(model.context_, expected.context_)
    assert model.history_ == expected.history_
    assert model.epoch_ == expected.epoch_
    told = []
    again = clone(model).set_params(progress=lambda *done: told.append(done)).fit(**data)  # Nothing left to do.
    assert told == []
    assert np.array_equal(again.context_, expected.context_)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.ckpt"]
    model.save(tmp_path / "model.lpp")
    assert lpplusplus.load(tmp_path / "model.lpp").checkpoint is None


def test_a_checkpoint_of_another_fit_is_refused(encoder, task, tmp_path):
    X, y, *_ = task
    path = tmp_path / "fit.ckpt"
    CoOp(encoder=encoder, epochs=2, checkpoint=path).fit(X[:, :, 0], y)
    with pytest.raises(CheckpointError, match=r"fit\.ckpt is of another training"):
        CoOp(encoder=encoder, epochs=2, checkpoint=path).fit(X[:, :, 0] + 1, y)
    with pytest.raises(CheckpointError, match="another training"):
        CoOp(encoder=encoder, epochs=3, checkpoint=path).fit(X[:, :, 0], y)
    with pytest.raises(CheckpointError, match="another training"):
        KgCoOp(encoder=encoder, epochs=2, checkpoint=path).fit(X[:, :, 0], y)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="not a whole checkpoint"):
        CoOp(encoder=encoder, epochs=2, checkpoint=path).fit(X[:, :, 0], y)
    with pytest.raises(CheckpointError, match="there is no folder"):
        CoOp(encoder=encoder, epochs=2, checkpoint=tmp_path / "none" / "fit.ckpt").fit(X[:, :, 0], y)


# Learning ----------------------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """An example with its test images."""

    example: prompt_examples.Example
    X: np.ndarray
    y: np.ndarray

    @classmethod
    def of(cls, example):
        return cls(example, *example.draw(prompt_examples.TEST_IMAGES, prompt_examples.TEST_SEED))


@pytest.fixture(scope="module")
def demo():
    return Held.of(prompt_examples.demo())


@pytest.fixture(scope="module")
def background(tmp_path_factory):
    return Held.of(prompt_examples.background(tmp_path_factory.mktemp("background")))


def gains(held, shots, seed):
    """Zero-shot's accuracy; for each method, by how much it is better, and the part of its loss that is left."""
    example = held.example
    X, y = example.draw(shots, seed)
    text = class_texts(example.encoder, example.names)
    zero = ZeroShot().fit(X[:, 0], y, text=text, classes=example.names).score(held.X[:, 0], held.y)
    found = {}
    for method in METHODS:
        model = example.learner(method, shots, seed).fit(suited(method, X), y, classes=example.names)
        loss = model.history_["loss"]
        found[method.__name__] = model.score(suited(method, held.X), held.y) - zero, loss[-1] / loss[0]
    return zero, found


@pytest.mark.parametrize("shots", [4, 16])
def test_each_method_beats_zero_shot_in_the_demonstrations_shifted_domain(shots, demo):
    """The own task of the model of drawings, its weights in torch; 960 held-out images."""
    first = prompt_examples.FIRST_SEED
    runs = [gains(demo, shots, seed) for seed in range(first, first + 6)]
    assert 0.5 < runs[0][0] < 0.7
    for name in runs[0][1]:
        over, left = zip(*(found[name] for _, found in runs), strict=True)
        assert min(over) > 0, name
        assert np.mean(over) > 0.02, name
        # ProGrad gives up least of what the hand-written prompts know, and so falls least: 0.957 on one support.
        assert max(left) < (0.98 if name == "ProGrad" else 0.95), name
        assert np.mean(left) < 0.95, name


@pytest.mark.parametrize("shots", [4, 16])
@pytest.mark.parametrize("seed", range(3))
def test_each_method_beats_zero_shot_where_the_words_are_the_problem(shots, seed, background):
    """With the authors' settings."""
    zero, found = gains(background, shots, seed)
    assert 0.2 < zero < 0.5  # Chance is 0.125.
    for name, (over, left) in found.items():
        assert over > 0.03, name
        assert left < 0.95, name


def test_the_model_of_drawings_in_torch_is_the_model_of_drawings(demo):
    """Every tower, against onnxruntime; and the text tower from embedded words, whose attention masks padding."""
    ours, shipped = demo.example.encoder, open_encoder("drawings")
    rng = np.random.default_rng(0)
    batch = list(rng.standard_normal((5, 3, 64, 64), np.float32))
    assert np.allclose(ours.encode_prepared(batch), shipped.encode_prepared(batch), atol=1e-5)
    texts = ["a photo of a red star.", "x", "", "five triangles " * 20]
    assert np.allclose(ours.encode_texts(texts), shipped.encode_texts(texts), atol=1e-5)
    tower = TextTower(ours)
    tokens = tower.trimmed(tower.tokens(texts[:2])[0])
    assert tokens.shape[1] < tower.length
    assert np.allclose(tower.features(tower.embed(tokens), tokens).numpy(), ours.encode_texts(texts[:2]), atol=1e-5)
    whole = ours.model.visual.tokens(torch.from_numpy(np.stack(batch)))[:, 0]
    assert np.allclose(whole.numpy(), ours.encode_prepared(batch), atol=1e-6)
