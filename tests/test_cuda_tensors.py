"""Routes of CUDA tensors: where they are, in their stream's order, with the CPU device's bits.

To add a case that needs a GPU: ask for `torch` and `cuda`, which skip where there is none. What is refused
without looking at a GPU is tested everywhere.
"""

from __future__ import annotations

import gc
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import qwisp_native as qn
from qwisp_native import streams
from qwisp_native.settings import VARIANTS
from small import EXPERTS, HIDDEN, TOP_K, layer, rows, same

# ---- without a GPU


class Elsewhere:
    """An array of another library, on any device."""

    dtype = "float16"

    def __init__(self, device: tuple[int, int], error: Exception | None = None, grad: bool = False) -> None:
        self.device, self.error, self.requires_grad = device, error, grad
        self.told: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: object = None) -> object:
        self.told.append(stream)
        if self.error is not None:
            raise self.error
        return "capsule"


class WithStream:
    def __init__(self, number: Any) -> None:
        self.cuda_stream = number


class WithProtocol:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 77


def cpu_router() -> qn.Router:
    return qn.Router(layer().gate(qn.Device("cpu")), TOP_K)


def test_a_cpu_router_refuses_what_is_on_cuda() -> None:
    with pytest.raises(ValueError, match=r"^x: on CUDA, but it must be on the CPU"):
        cpu_router()(Elsewhere((2, 0)))


def test_a_cpu_router_has_no_streams() -> None:
    for x in (rows(1), Elsewhere((2, 0))):
        with pytest.raises(ValueError, match=r"^stream: 1, but the router's device, 'cpu', has no streams"):
            cpu_router()(x, stream=1)  # type: ignore[call-overload]


def test_a_device_array_is_made_by_routers_only() -> None:
    with pytest.raises(TypeError, match="No constructor"):
        qn.DeviceArray()


@pytest.mark.parametrize(
    ("x", "stream", "error", "match"),
    [
        (Elsewhere((1, 0)), None, ValueError, r"^x: on the CPU, but the router's device is 'cuda'"),
        (Elsewhere((8, 0)), None, ValueError, r"^x: on Metal, but it must be on CUDA"),
        (Elsewhere((2, 1)), None, ValueError, r"^x: on CUDA device 1, but the router is on CUDA device 0"),
        (Elsewhere((2, 0), grad=True), None, ValueError, r"^x: requires grad.*x\.detach\(\)"),
        (Elsewhere((2, 0), BufferError("no such")), None, ValueError, r"^x: DLPack with stream 1: no such"),
        (rows(1), 1, ValueError, r"^stream: 1, but x is on the host"),
        (b"bytes", 1, ValueError, r"^stream: 1, but x is on the host"),
        (Elsewhere((2, 0)), "s", TypeError, r"^stream: 's', but it must be an int"),
        (Elsewhere((2, 0)), True, TypeError, r"^stream: True, but it must be an int"),
        (Elsewhere((2, 0)), 1.0, TypeError, r"^stream: 1.0, but it must be an int"),
        (Elsewhere((2, 0)), -2, ValueError, r"^stream: -2, but it must be -1, 1, 2 or"),
        (Elsewhere((2, 0)), 2**64, ValueError, r"^stream: 18446744073709551616, but"),
        (Elsewhere((2, 0)), WithStream(None), TypeError, r"^stream: <.*, but it must be an int"),
    ],
)
def test_refused_before_the_device_is_asked(
    x: object, stream: object, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        streams.on_stream(x, stream, 0)


@pytest.mark.parametrize("x", [rows(1), np.float16(1), b"bytes", None, [1.0], np.ndarray])
def test_what_is_on_the_host_is_left_to_be_copied(x: object) -> None:
    assert streams.on_stream(x, None, 0) is None


@pytest.mark.parametrize(
    ("stream", "told", "target"),
    [
        *(
            (None, 1, 1),
            (0, 1, 1),
            (1, 1, 1),
            (2, 2, 2),
            (-1, -1, 1),
            (4096, 4096, 4096),
            (np.int64(5), 5, 5),
        ),
        *((WithStream(0), 1, 1), (WithStream(9), 9, 9), (WithProtocol(), 77, 77)),
    ],
)
def test_streams_by_the_array_api(stream: object, told: int, target: int) -> None:
    x = Elsewhere((2, 0))
    assert streams.on_stream(x, stream, 0) == ("capsule", target, False)
    assert x.told == [told]


def test_a_torch_that_is_only_half_imported_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    assert streams.on_stream(Elsewhere((2, 0)), None, 0) == ("capsule", 1, False)


def test_a_tensor_of_torch_takes_its_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    fake: Any = types.ModuleType("torch")
    fake.Tensor = Elsewhere
    fake.cuda = types.SimpleNamespace(current_stream=lambda device: WithStream({(2, 0): 55}[device]))
    monkeypatch.setitem(sys.modules, "torch", fake)
    for stream, told, target, ordered in ((None, -1, 55, True), (55, -1, 55, True), (56, 56, 56, False)):
        x = Elsewhere((2, 0))
        assert streams.on_stream(x, stream, 0) == ("capsule", target, ordered)
        assert x.told == [told]


# ---- on a GPU


@pytest.fixture(scope="module")
def cuda() -> qn.Device:
    (found,) = (each for each in qn.devices() if each.kind == "cuda")
    if not found.available:
        pytest.skip(f"no cuda device: {found.why}")
    return qn.Device("cuda")


@pytest.fixture(scope="module")
def torch(cuda: qn.Device) -> Any:
    module = pytest.importorskip("torch", reason="no torch")
    if not module.cuda.is_available():
        pytest.skip("torch has no CUDA")
    return module


class Pair(NamedTuple):
    """One router on the GPU, and its like on the CPU."""

    cuda: qn.Router
    cpu: qn.Router
    hidden: int

    def rows(self, count: int, seed: int = 1) -> NDArray[np.float16]:
        rng = np.random.default_rng(seed)
        return rng.normal(0, 1, (count, self.hidden)).astype(np.float16)


def small_pair(device: qn.Device, fuse: Any = None) -> Pair:
    routers = [qn.Router(layer().gate(each), TOP_K, fuse=fuse) for each in (device, qn.Device("cpu"))]
    return Pair(routers[0], routers[1], HIDDEN)


def large_pair(device: qn.Device, fuse: Any) -> Pair:
    experts, hidden = 256, 2048
    rng = np.random.default_rng(5)
    scales = rng.uniform(5e-4, 2e-3, (experts, hidden // 64)).astype(np.float16)
    parts = (rng.integers(0, 256, (experts, hidden), np.uint8), scales, (-127.5 * scales).astype(np.float16))
    gates = [qn.Gate(each, *parts) for each in (device, qn.Device("cpu"))]
    return Pair(qn.Router(gates[0], 8, fuse=fuse), qn.Router(gates[1], 8, fuse=fuse), hidden)


def on_host(arrays: Any) -> tuple[NDArray[Any], ...]:
    return tuple(each.numpy() for each in arrays)


@pytest.mark.parametrize("fuse", VARIANTS)
@pytest.mark.parametrize("make", [small_pair, large_pair])
def test_the_bits_of_the_cpu_device(torch: Any, cuda: qn.Device, make: Any, fuse: str) -> None:
    pair = make(cuda, fuse)
    experts = pair.cpu.gate.experts
    resident = np.arange(experts) % 3 == 0
    on_device = cuda.buffer(resident.astype(np.int32))
    for count in (1, 2, 8, 32, 33, 1):
        x = pair.rows(count, count)
        tensor = torch.from_numpy(x).cuda()
        for logits in (False, True):
            for bias in (None, qn.RouteBias(resident, 0.25), qn.RouteBias(resident, 0)):
                want = pair.cpu(x, return_logits=logits, bias=bias)  # type: ignore[call-overload]
                assert same(on_host(pair.cuda(tensor, return_logits=logits, bias=bias)), want)
                assert same(pair.cuda(x, return_logits=logits, bias=bias), want)  # type: ignore[call-overload]
            biased = pair.cuda(tensor, return_logits=logits, bias=qn.RouteBias(on_device, 0.25))
            want = pair.cpu(x, return_logits=logits, bias=qn.RouteBias(resident, 0.25))  # type: ignore[call-overload]
            assert same(on_host(biased), want)


def test_results_are_arrays_that_torch_takes_as_they_are(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda)
    x = pair.rows(3)
    want = pair.cpu(x, return_logits=True)
    arrays = pair.cuda(torch.from_numpy(x).cuda(), return_logits=True)
    assert [each.shape for each in arrays] == [(3, TOP_K), (3, TOP_K), (3, EXPERTS)]
    assert [each.dtype for each in arrays] == [np.int32, np.float16, np.float16]
    assert arrays[0].nbytes == 3 * TOP_K * 4
    assert arrays[0].device is cuda
    assert repr(arrays[0]) == f"DeviceArray(int32 [3, {TOP_K}])"
    assert arrays[0].__dlpack_device__() == (2, 0)
    tensors = [torch.from_dlpack(each) for each in arrays]
    assert same([each.cpu().numpy() for each in tensors], want)
    assert torch.from_dlpack(arrays[1]).data_ptr() == tensors[1].data_ptr()
    del arrays
    gc.collect()
    for seed in range(20):  # others' results must not land in memory that is still looked at
        pair.cuda(torch.from_numpy(pair.rows(3, seed)).cuda(), return_logits=True)
    assert same([each.cpu().numpy() for each in tensors], want)
    assert pair.cuda(torch.empty((0, HIDDEN), dtype=torch.float16, device="cuda"))[0].numpy().shape == (
        0,
        TOP_K,
    )


def test_capsules_that_nobody_consumes(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda)
    inds, _ = pair.cuda(torch.from_numpy(pair.rows(1)).cuda())
    for stream in (None, 1, 2, -1, torch.cuda.current_stream(), torch.cuda.Stream()):
        inds.__dlpack__(stream=stream)
    inds.__dlpack__(max_version=(1, 0), dl_device=(2, 0), copy=False)
    for options in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError, match=next(iter(options))):
            inds.__dlpack__(**options)
    with pytest.raises(TypeError, match=r"^stream: 'x'"):
        inds.__dlpack__(stream="x")


def test_rows_anywhere_in_a_tensor(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda)
    x = pair.rows(6)
    tensor = torch.from_numpy(x).cuda()
    assert same(on_host(pair.cuda(tensor[2:5])), pair.cpu(x[2:5]))
    odd = torch.empty(2 * HIDDEN + 1, dtype=torch.float16, device="cuda")[1:].view(2, HIDDEN)
    odd.copy_(tensor[:2])
    for fuse in VARIANTS:
        router = small_pair(cuda, fuse).cuda
        if fuse.startswith("split"):
            with pytest.raises(ValueError, match=f"x: its address is no multiple of 16.*'{fuse}'"):
                router(odd)
        else:
            assert same(on_host(router(odd)), pair.cpu(x[:2]))


def test_the_order_of_a_stream_and_no_waiting(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda)
    old, new = torch.from_numpy(pair.rows(2, 1)).cuda(), torch.from_numpy(pair.rows(2, 2)).cuda()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for bias in (None, qn.RouteBias(np.arange(EXPERTS) % 2 == 0, 0.5)):
        want = pair.cpu(pair.rows(2, 2), bias=bias)
        with torch.cuda.stream(stream):
            pair.cuda(old, bias=bias)  # what is made once is made
            stream.synchronize()
            x = old.clone()
            torch.cuda._sleep(300_000_000)
            x.copy_(new)
            arrays = pair.cuda(x, bias=bias)
            assert not stream.query()
            tensors = [torch.from_dlpack(each) for each in arrays]
            assert not stream.query()
            del x, arrays
            copies = [each.clone() for each in tensors]
            assert not stream.query()
        stream.synchronize()
        assert same([each.cpu().numpy() for each in copies], want)


def test_a_stream_that_is_named(torch: Any, cuda: qn.Device) -> None:
    """x comes from the current stream, the route runs on another, and x is kept until that has passed."""
    pair = small_pair(cuda)
    want = pair.cpu(pair.rows(2, 2))
    new = torch.from_numpy(pair.rows(2, 2)).cuda()
    other = torch.cuda.Stream()
    pair.cuda(new, stream=other)
    torch.cuda.synchronize()
    for name in (other, other.cuda_stream, 1, 0):
        x = torch.zeros_like(new)
        torch.cuda._sleep(50_000_000)
        x.copy_(new)
        arrays = pair.cuda(x, stream=name)
        del x
        junk = [torch.full_like(new, float("nan")) for _ in range(8)]  # would be x's memory, were it free
        assert same(on_host(arrays), want)
        torch.cuda.synchronize()
        del junk


def test_an_array_of_a_library_that_is_not_torch(torch: Any, cuda: qn.Device) -> None:
    class Other:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, *, stream: int | None = None) -> Any:
            return self.tensor.__dlpack__(stream=stream)

    pair = small_pair(cuda)
    large = torch.from_numpy(pair.rows(4096)).cuda()
    want = pair.cpu(pair.rows(4096))
    pair.cuda(Other(large[:1]))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        assert same(on_host(pair.cuda(Other(large.clone()))), want)
    pair.cuda(Other(large[:1]))  # lets go of what the others were given
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before


def test_memory_waits_for_a_stream_that_was_handed_it(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.from_numpy(pair.rows(8)).cuda()
    others = torch.from_numpy(pair.rows(8, 77)).cuda()
    want = pair.cpu(pair.rows(8))
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        torch.cuda._sleep(50_000_000)
        arrays = pair.cuda(x)
    with torch.cuda.stream(second):
        tensors = [torch.from_dlpack(each) for each in arrays]
        torch.cuda._sleep(200_000_000)
        copies = [each.clone() for each in tensors]
        del tensors, arrays
        gc.collect()
    with torch.cuda.stream(first):
        for _ in range(50):
            pair.cuda(others)
    torch.cuda.synchronize()
    assert same([each.cpu().numpy() for each in copies], want)


def test_two_streams_at_once(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda, "last")
    counts = (1, 8)
    want = [[pair.cpu(pair.rows(count, seed)) for seed in range(40)] for count in counts]
    failed: list[str] = []

    def work(which: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            got = []
            for seed in range(40):
                x = torch.from_numpy(pair.rows(counts[which], seed)).cuda()
                got.append(pair.cuda(x))
            for seed, arrays in enumerate(got):
                if not same(on_host(arrays), want[which][seed]):
                    failed.append(f"stream {which}, seed {seed}")

    threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed

    streams_ = [torch.cuda.Stream() for _ in range(2)]
    xs = [[torch.from_numpy(pair.rows(count, seed)).cuda() for seed in range(40)] for count in counts]
    torch.cuda.synchronize()
    got = [[], []]  # type: list[list[Any]]
    for seed in range(40):
        for which in range(2):
            with torch.cuda.stream(streams_[which]):
                got[which].append(pair.cuda(xs[which][seed]))
    for which in range(2):
        assert all(same(on_host(a), w) for a, w in zip(got[which], want[which], strict=True))


def test_memory_is_used_again(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda)
    x = torch.from_numpy(pair.rows(4096)).cuda()
    one = x[:1]

    def call() -> None:
        pair.cuda(x, return_logits=True)
        torch.from_dlpack(pair.cuda(one)[0])

    for _ in range(10):
        call()
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(2000):
        call()
    torch.cuda.synchronize()
    assert free - torch.cuda.mem_get_info()[0] < 64 << 20
    held = [pair.cuda(x, return_logits=True) for _ in range(100)]
    want = pair.cpu(pair.rows(4096), return_logits=True)
    assert same(on_host(held[0]), want)
    assert same(on_host(held[99]), want)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("fuse", VARIANTS)
def test_capture_and_replay(torch: Any, cuda: qn.Device, fuse: str, warm: bool) -> None:
    pair = small_pair(cuda, fuse)
    bias = qn.RouteBias(np.arange(EXPERTS) % 2 == 0, 0.5)
    count = 3
    x = torch.from_numpy(pair.rows(count)).cuda()
    if warm:
        pair.cuda(x, return_logits=True, bias=bias)
        pair.cuda(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="global"):
        arrays = pair.cuda(x, return_logits=True, bias=bias)
        plain = pair.cuda(x)
        tensors = [torch.from_dlpack(each) for each in (*arrays, *plain)]
        sums = tensors[0] + 1
        with pytest.raises(RuntimeError, match="capturing a graph"):
            plain[0].numpy()
    del bias
    gc.collect()
    for seed in range(100):
        rows_ = pair.rows(count, seed)
        x.copy_(torch.from_numpy(rows_))
        graph.replay()
        want_biased = pair.cpu(rows_, return_logits=True, bias=qn.RouteBias(np.arange(EXPERTS) % 2 == 0, 0.5))
        want = pair.cpu(rows_)
        if seed % 10 == 0:  # calls in between have other memory
            other = pair.rows(count, 1000 + seed)
            assert same(on_host(pair.cuda(torch.from_numpy(other).cuda())), pair.cpu(other))
        assert same([each.cpu().numpy() for each in tensors], (*want_biased, *want))
        assert np.array_equal(sums.cpu().numpy(), want_biased[0] + 1)
        if seed % 25 == 0:
            assert same(on_host(plain), want)


def test_an_array_from_before_a_capture(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda)
    x = torch.from_numpy(pair.rows(1)).cuda()
    inds, _ = pair.cuda(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
        with pytest.raises(ValueError, match=r"^stream: a graph is being captured"):
            torch.from_dlpack(inds)
    assert same([inds.numpy()], pair.cpu(pair.rows(1))[:1])


def test_arrays_outlive_their_router(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda)
    want = pair.cpu(pair.rows(2))
    arrays = pair.cuda(torch.from_numpy(pair.rows(2)).cuda())
    tensors = [torch.from_dlpack(each) for each in arrays]
    del pair
    gc.collect()
    assert same(on_host(arrays), want)
    del arrays
    gc.collect()
    assert same([each.cpu().numpy() for each in tensors], want)


def test_tensors_are_refused_by_name(torch: Any, cuda: qn.Device) -> None:
    pair = small_pair(cuda)
    x = torch.from_numpy(pair.rows(4)).cuda()

    def refused(error: type[Exception], match: str, value: Any, **options: Any) -> None:
        with pytest.raises(error, match=match):
            pair.cuda(value, **options)

    refused(TypeError, r"^x: dtype float32, but it must be float16", x.float())
    refused(TypeError, r"^x: dtype bfloat16, but it must be float16", x.bfloat16())
    refused(TypeError, r"^x: dtype int16, but it must be float16", x.view(torch.int16))
    refused(ValueError, r"^x: shape \[4, 512\] with strides \[1, 4\].*C-contiguous", x.t().contiguous().t())
    refused(ValueError, r"^x: shape \[4, 256\]", x[:, :256].contiguous())
    refused(ValueError, r"^x: shape \[512\]", x[0])
    refused(ValueError, r"^x: requires grad", x.clone().requires_grad_())
    refused(ValueError, r"^x: on the CPU, but the router's device is 'cuda'", x.cpu())
    refused(ValueError, r"^out: given", x, out=pair.cpu(pair.rows(4)))
    refused(ValueError, r"^stream: 1, but x is on the host", pair.rows(4), stream=1)
    refused(TypeError, r"^stream: 'x'", x, stream="x")
    refused(ValueError, r"^x: DLPack with stream 2: per-thread", x, stream=2)  # what torch says
    refused(ValueError, r"^bias.resident: 3 elements", x, bias=qn.RouteBias(np.ones(3, np.int32), 1))
    with pytest.raises(ValueError, match=r"^x: on CUDA, but it must be on the CPU"):
        pair.cpu(x)
    assert same(on_host(pair.cuda(x)), pair.cpu(pair.rows(4)))
