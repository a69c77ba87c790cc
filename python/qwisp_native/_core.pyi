# Written by cpp/python/make_stub.py.
# ruff: noqa
"""
The compiled part of qwisp_native; use that.
"""

from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import qwisp_native.arrays
import qwisp_native.settings
import qwisp_native.streams
import typing

__all__: list[str] = [
    "Buffer",
    "CommandBuffer",
    "ComputeEncoder",
    "Device",
    "DeviceArray",
    "DispatchProbe",
    "Gate",
    "ReadFloor",
    "RouteBias",
    "RouteDiag",
    "RoutePlan",
    "RouteScratch",
    "Router",
    "Timing",
    "available_devices",
    "compiler",
    "encode_moe_route_rows",
    "load_kernel_image",
    "plan",
    "record_route",
    "scratch_state",
    "shader_sha256",
    "why_no_cuda_device",
]

class Device:
    """
    A device that routes. Shaders are compiled when it is made, on "cuda" each kernel at first use.

    Args:
        kind: "cpu" (the software device: the shaders' threads run on the processor), "cuda" (an NVIDIA GPU) or
            "metal" (an Apple GPU). None: QWISP_DEVICE, or the best that there is: "metal", else "cuda", else "cpu".
        contract: "off" (every operation rounds on its own, as docs/contract.md section 2 has it) or "compiler"
            (multiplications and additions contract as the compiler likes, for parity with an engine that is built
            so). None: QWISP_CONTRACT.

    Raises:
        TypeError, ValueError: a kind or contract that does not exist, or an environment variable that is wrong.
        DeviceError: the device is not here, or the shaders do not compile (with the compiler's own message).

    A device may be used from several threads at once.
    """
    def __init__(self, kind: str | None = None, *, contract: str | None = None) -> None: ...
    def __repr__(self) -> str: ...
    def buffer(
        self, array: qwisp_native.arrays.ArrayInput, label: str | None = None, *, private: bool = False
    ) -> Buffer:
        """
        A buffer with a copy of `array`.

        Args:
            array: any shape, of bool, (u)int8 to (u)int64 or float16 to float64; C-contiguous. numpy, the buffer
                protocol, or DLPack on the CPU.
            label: a name for error messages and for tools that capture frames.
            private: in memory of the device's own, which the host does not see: on "cuda" the GPU's, where kernels read
                much faster than in shared memory.

        Raises:
            TypeError: not an array, or another dtype.
            ValueError: not contiguous, or not on the CPU.
            MemoryError: the device does not have it.
            DeviceError: the copy to private memory failed.
        """
    def command_buffer(self) -> CommandBuffer:
        """
        A new, empty command buffer on the device's queue. RuntimeError if 32 are held uncommitted.
        """
    def empty(
        self,
        shape: int | collections.abc.Sequence[int],
        dtype: numpy.typing.DTypeLike,
        label: str | None = None,
    ) -> Buffer:
        """
        A buffer of zeros.

        Args:
            shape: an int or a sequence of ints, each >= 0.
            dtype: bool, (u)int8 to (u)int64 or float16 to float64.
            label: a name for error messages and for tools that capture frames.

        Raises:
            TypeError, ValueError: a wrong dtype or shape.
            MemoryError: the device does not have it.
        """
    @property
    def contract(self) -> str:
        """
        "off" or "compiler".
        """
    @property
    def kernel_names(self) -> list[str]:
        """
        What `kernels` may be here, best first; empty on devices that have no choice.
        """
    @property
    def kernels(self) -> str:
        """
        How the device runs kernels. All choices give the same bits. It belongs to the device of the process.

        "cpu": "avx512", "avx2", "neon" or "portable" (the vector kernels), or "simt" (the shaders themselves, thread by
        thread: a thousand times slower, and checks every access). The first value comes from QWISP_CPU_KERNELS; without
        it, the best that this processor runs. A simt_seed implies "simt".

        "cuda": "dependent" (a command buffer is a CUDA graph, and a kernel may start before the one before it has ended;
        compute capability 9.0 and a driver for CUDA 12.3, or later), "graph" (without that) or "stream" (one launch a dispatch).

        "" on "metal".

        Raises:
            TypeError: not a str.
            ValueError: not one of kernel_names.
        """
    @kernels.setter
    def kernels(self, arg1: str) -> None: ...
    @property
    def kind(self) -> str:
        """
        "cpu", "cuda" or "metal".
        """
    @property
    def name(self) -> str:
        """
        The device's own name.
        """
    @property
    def shader_sha256(self) -> str:
        """
        SHA-256, in hex, of the shader text that this device compiled.
        """
    @property
    def simt_seed(self) -> int | None:
        """
        Seed of all that the software device may choose: the order of threads and threadgroups, what others see of memory.

        None: natural order, one threadgroup after another. With a seed the shaders run as docs/reliability.md says, and
        two accesses that nothing orders are an error that names the seed. The seed belongs to the software device of the process, so all Device("cpu")
        objects share it. The first value comes from QWISP_SIMT_SEED.

        Raises:
            TypeError: not an int or None.
            ValueError: a seed below 0 or above 2^63 - 1, or a device that is not the software device.
        """
    @simt_seed.setter
    def simt_seed(self, arg1: int | None) -> None: ...
    @property
    def threads(self) -> int:
        """
        Threads that compute on the software device, the calling one included; 1 on other devices.

        It belongs to the process. The first value comes from QWISP_CPU_THREADS; without it, as many as processors are
        available, 4 at most.

        Raises:
            TypeError: not an int.
            ValueError: not 1 to 64, or a device that is not the software device.
        """
    @threads.setter
    def threads(self, arg1: int) -> None: ...

class Buffer:
    """
    Memory that the device and this process share, or private to the device, with a shape and a dtype.

    Made by Device.buffer and Device.empty. A command buffer keeps the buffers that it uses alive.
    """
    def __repr__(self: Buffer) -> str: ...
    @property
    def array(self) -> numpy.typing.NDArray[typing.Any]:
        """
        The buffer's own memory as a numpy array, without a copy.

        The array keeps the memory alive. Nothing guards it against a command buffer that is still running: read and
        write after CommandBuffer.wait_until_completed.

        Raises:
            RuntimeError: the buffer is private to the device.
        """
    @property
    def device(self) -> Device:
        """
        Where it was made.
        """
    @property
    def dtype(self) -> numpy.dtype[typing.Any]:
        """
        A numpy dtype.
        """
    @property
    def label(self) -> str:
        """
        "" if it has none.
        """
    @property
    def nbytes(self) -> int:
        """
        In bytes.
        """
    @property
    def shape(self) -> tuple[int, ...]:
        """
        A tuple of ints.
        """

class CommandBuffer:
    """
    Commands for a device, run in order once they are committed.

    Made by Device.command_buffer. Fill it through one or more encoders, one at a time, then commit it and wait. A
    call out of order is a RuntimeError. Not needed for Router, which has its own.
    """
    def __repr__(self) -> str: ...
    def commit(self) -> None:
        """
        Hands the commands to the device. RuntimeError if committed before or if an encoder is open.
        """
    def compute_encoder(self, concurrent: bool = False) -> ComputeEncoder:
        """
        A new encoder. RuntimeError if one is open or after commit.
        """
    def wait_until_completed(self) -> None:
        """
        Blocks until the commands have run. The GIL is released meanwhile.

        Raises:
            RuntimeError: the command buffer is not committed.
            DeviceError: a command failed, with the device's own message. Scratches that it used are cleared, so they can
                be used again.
        """
    @property
    def device(self) -> Device:
        """
        Where it was made.
        """
    @property
    def gpu_time(self) -> float | None:
        """
        Seconds that the device spent, as it says itself; None until completed.
        """
    @property
    def status(self) -> str:
        """
        "not committed", "encoding" (an encoder is open), "committed", "completed" or "error".
        """

class ComputeEncoder:
    """
    Writes commands into a command buffer. A context manager: it ends on leaving.

    Serial (the default): each command sees what those before it wrote. Concurrent: commands may overlap;
    encode_moe_route_rows issues the barriers inside a route, and the caller calls memory_barrier between what writes
    a buffer and what reads it otherwise (x before a route, results after it, two routes that share a scratch).
    """
    def __enter__(self) -> ComputeEncoder: ...
    def __exit__(self, kind: typing.Any, error: typing.Any, trace: typing.Any) -> None: ...
    def end_encoding(self) -> None:
        """
        No more commands from this encoder. RuntimeError if it has ended.
        """
    def memory_barrier(self) -> None:
        """
        Commands after it see what those before it wrote to buffers. RuntimeError if the encoder has ended.
        """
    @property
    def concurrent(self) -> bool:
        """
        False: serial.
        """

class Gate:
    """
    A layer's router gate on a device: 8-bit affine weights in groups of 64 columns, as MLX stores them.

    E experts, H hidden columns; H a multiple of 512, E a multiple of 8 and at most 256 (docs/contract.md section 1).

    Args:
        device: where the copies go.
        weight: uint32 [E, H/4] (four codes a word, the lowest byte first) or uint8 [E, H].
        scales, biases: float16 [E, H/64]. Column c of expert e stands for scales[e, c // 64] * code + biases[e, c // 64].

    Raises:
        TypeError, ValueError: a wrong dtype, shape or layout, or a limit.
        MemoryError: the device does not have it.
    """
    @staticmethod
    def from_weights(device: Device, weights: typing.Any) -> Gate:
        """
        A gate from one layer of a checkpoint.

        Args:
            device: where the gate goes.
            weights: one of the values of load_gates(path); anything with weight, scales and biases will do.
        """
    @staticmethod
    def quantize(device: Device, dense: qwisp_native.arrays.ArrayInput) -> Gate:
        """
        A gate from dense weights: the bytes that mlx.core.quantize(bits=8, group_size=64) gives.

        Args:
            device: where the gate goes.
            dense: float16, float32 or float64 [E, H], finite. See qwisp_native.quantize.

        Raises:
            TypeError, ValueError: a wrong dtype, shape, layout or value.
            MemoryError: the device does not have it.
        """
    def __init__(
        self,
        device: Device,
        weight: qwisp_native.arrays.ArrayInput,
        scales: qwisp_native.arrays.ArrayInput,
        biases: qwisp_native.arrays.ArrayInput,
    ) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def biases(self) -> numpy.typing.NDArray[numpy.float16]:
        """
        float16 [E, H/64], read only: a copy, because gates are private to the device.
        """
    @property
    def device(self) -> Device:
        """
        Where it is.
        """
    @property
    def experts(self) -> int:
        """
        E.
        """
    @property
    def hidden(self) -> int:
        """
        H.
        """
    @property
    def scales(self) -> numpy.typing.NDArray[numpy.float16]:
        """
        float16 [E, H/64], read only: a copy, because gates are private to the device.
        """
    @property
    def weight(self) -> numpy.typing.NDArray[numpy.uint8]:
        """
        uint8 [E, H], read only: a copy, because gates are private to the device.
        """

class RouteScratch:
    """
    Buffers that encode_moe_route_rows writes: its results, and what the fused kernels keep between threadgroups.

    A scratch serves one route at a time: command buffers in flight at once need one each. Its arrays are views without
    a copy, except on a device whose memory is its own ("cuda"): there each is a copy, read only, of what the buffer holds
    once the command buffers committed before have run.

    Args:
        device: where the buffers are made.
        rows: the most rows that a route may have.
        experts: E of the gate.
        top_k: K, from 1 to experts.

    Raises:
        TypeError, ValueError: a limit, with the value found.
        MemoryError: the device does not have it.
    """
    def __init__(self, device: Device, rows: int, experts: int, top_k: int) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def device(self) -> Device:
        """
        Where it is.
        """
    @property
    def experts(self) -> int:
        """
        E.
        """
    @property
    def inds(self) -> numpy.typing.NDArray[numpy.int32]:
        """
        int32 [rows, K], the chosen experts in order of choice.
        """
    @property
    def logits(self) -> numpy.typing.NDArray[numpy.float16]:
        """
        float16 [rows, E], raw. Written by the pair, or if logits or diag were asked for.
        """
    @property
    def rows(self) -> int:
        """
        Its room.
        """
    @property
    def scores(self) -> numpy.typing.NDArray[numpy.float16]:
        """
        float16 [rows, K], renormalised, in the same order.
        """
    @property
    def top_k(self) -> int:
        """
        K.
        """

class RouteBias:
    """
    Prefers experts that are resident: the choice is made on logit + eps for those (docs/contract.md section 4).

    Scores come from the unbiased logits.

    Args:
        resident: int32 or bool [E], not 0 for a resident expert: an array (copied), or an int32 Buffer, whose
            contents at the time of routing count.
        eps: added in float32; it must be finite. <= 0 means unbiased.

    Raises:
        TypeError, ValueError: a wrong dtype, shape or eps.
    """
    def __init__(self, resident: qwisp_native.arrays.ArrayInput | Buffer, eps: float) -> None: ...
    @property
    def eps(self) -> float:
        """
        As rounded to float32.
        """

class RouteDiag:
    """
    Where a route leaves its telemetry (docs/contract.md section 5).

    inds of M <= max_rows rows go to element ((slot * layers + layer) * max_rows) * K of `inds`; raw logits go to
    element layer * E of `logits`, only if M == 1 and slot == 0. Expert ids are those before any remap.

    Args:
        inds: int32 Buffer, large enough for this layer and slot.
        logits: float16 Buffer, large enough for this layer.
        layer, layers: which layer, from 0, of how many.
        slot: the chain slot, from 0.
        max_rows: rows that a slot has room for.

    Raises:
        TypeError, ValueError: a wrong buffer here; a place that cannot be, or a buffer too small, when it is used.
    """
    def __init__(
        self, inds: Buffer, logits: Buffer, *, layer: int, layers: int, slot: int = 0, max_rows: int
    ) -> None: ...
    @property
    def inds(self) -> Buffer:
        """
        int32 Buffer.
        """
    @property
    def layer(self) -> int:
        """
        From 0.
        """
    @property
    def layers(self) -> int:
        """
        How many.
        """
    @property
    def logits(self) -> Buffer:
        """
        float16 Buffer.
        """
    @property
    def max_rows(self) -> int:
        """
        Rows that a slot has room for.
        """
    @property
    def slot(self) -> int:
        """
        The chain slot, from 0.
        """

class RoutePlan:
    """
    Which kernels a route runs, and why.
    """
    def __repr__(self) -> str: ...
    @property
    def barriers(self) -> int:
        """
        Barriers that a concurrent encoder gets; a serial one needs none.
        """
    @property
    def dispatches(self) -> int:
        """
        How many there are.
        """
    @property
    def kernels(self) -> tuple[str, ...]:
        """
        The kernels, in order; none for 0 rows.
        """
    @property
    def reason(self) -> str:
        """
        Why this variant.
        """
    @property
    def variant(self) -> str:
        """
        "pair", "single" or "last".
        """

class DeviceArray:
    """
    An array in the device's own memory: what a Router leaves of CUDA tensors.

    torch.from_dlpack(array) and others like it take it without a copy, in the order of streams: what the consumer's stream
    is given afterwards sees the results. The memory is used again once no array and no tensor made from one is left, in
    the order of the call's stream and after what the consumers' streams were given by then; those streams must still
    exist. What a captured call leaves is overwritten by each replay.

    Made by Router only.
    """
    def __dlpack__(
        self,
        *,
        stream: typing.Any = None,
        max_version: typing.Any = None,
        dl_device: typing.Any = None,
        copy: typing.Any = None,
    ) -> typing.Any:
        """
        The exchange protocol of the array API.

        Args:
            stream: the consumer's: None or 1 (the legacy default stream), 2 (the thread's own), a stream's handle, or -1: no
                stream waits, and none is waited for.
            max_version, dl_device, copy: as the array API has them; there are no copies and no other devices.

        Raises:
            BufferError: a copy or another device is asked for.
            TypeError, ValueError: no stream; one that captures a graph in which this array was not made.
            DeviceError: the device failed.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """
        DLPack's type and number of the device: (2, 0), the first CUDA device.
        """
    def __repr__(self) -> str: ...
    def numpy(self) -> qwisp_native.arrays.AnyArray:
        """
        A copy on the host. Blocks until the array is written.

        Raises:
            RuntimeError: the call's stream is capturing a graph.
            DeviceError: the device failed, perhaps in what ran before.
        """
    @property
    def device(self) -> Device:
        """
        Where it is.
        """
    @property
    def dtype(self) -> qwisp_native.arrays.AnyDtype:
        """
        A numpy dtype.
        """
    @property
    def nbytes(self) -> int:
        """
        In bytes.
        """
    @property
    def shape(self) -> tuple[int, ...]:
        """
        A tuple of ints.
        """

class Router:
    """
    Routes rows through a gate: hidden rows in, chosen experts and their scores out.

    The results are those of docs/contract.md, bit for bit, whatever `fuse` is. A Router may be called from several
    threads at once.

    Args:
        gate: E experts, H columns.
        top_k: K, from 1 to E.
        fuse: None (the device's default, from QWISP_FUSE_ROUTE), False (the pair of kernels), True (fused where a
            variant exists, else the pair), "auto" (fused where it was measured to win), or a variant: "pair", "single",
            "last", "split_pair", "split_last".
        renormalize: only True: the contract always renormalises the K scores.

    Raises:
        TypeError, ValueError: an argument, with the value found and what it may be.
    """
    @typing.overload
    def __call__(
        self,
        x: qwisp_native.arrays.HostInput,
        *,
        return_logits: typing.Literal[False] = False,
        bias: RouteBias | None = None,
        out: tuple[qwisp_native.arrays.ArrayInput, ...] | list[qwisp_native.arrays.ArrayInput] | None = None,
    ) -> tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.float16]]:
        """
        Routes M rows. Blocks until done; the GIL is released meanwhile.

        Args:
            x: float16 [M, H], C-contiguous: numpy or the buffer protocol; on the CPU device also DLPack on the CPU. M = 0
                gives empty arrays.
            return_logits: also return the raw gate logits.
            bias: prefer resident experts.
            out: (inds, scores) or, with return_logits, (inds, scores, logits), to be written and returned instead of fresh
                arrays. They must not overlap. They are written only once the device has succeeded.

        Returns:
            inds: int32 [M, K], the chosen experts in order of choice. A row that is NaN or -inf may repeat expert 0; see
                repeated_rows.
            scores: float16 [M, K], renormalised, in the same order.
            logits: float16 [M, E], with return_logits.

        Raises:
            TypeError, ValueError: an argument, with what it was and what it may be; a named variant that does not exist for
                this request.
            DeviceError: the device failed, with its own message.
            MemoryError: the device, or this process, does not have the memory.
        """
    @typing.overload
    def __call__(
        self,
        x: qwisp_native.arrays.HostInput,
        *,
        return_logits: typing.Literal[True],
        bias: RouteBias | None = None,
        out: tuple[qwisp_native.arrays.ArrayInput, ...] | list[qwisp_native.arrays.ArrayInput] | None = None,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int32],
        numpy.typing.NDArray[numpy.float16],
        numpy.typing.NDArray[numpy.float16],
    ]:
        """
        The same, with raw logits.
        """
    @typing.overload
    def __call__(
        self,
        x: qwisp_native.arrays.SupportsDLPack,
        *,
        return_logits: bool = False,
        bias: RouteBias | None = None,
        out: tuple[qwisp_native.arrays.ArrayInput, ...] | list[qwisp_native.arrays.ArrayInput] | None = None,
        stream: qwisp_native.streams.StreamInput | None = None,
    ) -> tuple[typing.Any, ...]:
        """
        The same for an array of another library. On the CPU it is taken as numpy's are. On CUDA, by a router whose device is
        "cuda", it is routed where it is, in the order of a stream: the call returns at once, and its results are DeviceArrays.

        The call may be captured into a CUDA graph (torch.cuda.graph). It then has memory of its own, results included, that
        lives as long as the Router; keep the Router and x for as long as the graph is replayed.

        Args:
            x: as above; on CUDA without grad, on the device's own GPU (the first).
            return_logits, bias: as above. On CUDA, a Buffer as `resident` is read when the stream comes to it.
            out: as above; not on CUDA.
            stream: for x on CUDA. None: torch's current stream for a tensor of torch's, else the legacy default stream.
                Otherwise 1 (that one; so is 0), 2 (the thread's own), a valid stream's handle, or an object with
                __cuda_stream__ or cuda_stream. x's library makes it wait for x; -1 is the legacy default stream without
                that wait.

        Returns:
            (inds, scores) or (inds, scores, logits): DeviceArrays for x on CUDA, else numpy arrays.

        Raises:
            As above.
        """
    def __init__(
        self,
        gate: Gate,
        top_k: int = 8,
        fuse: qwisp_native.settings.Fuse | None = None,
        renormalize: bool = True,
    ) -> None: ...
    def __repr__(self) -> str: ...
    def plan(
        self,
        rows: int,
        *,
        bias: bool = False,
        logits: bool = False,
        fuse: qwisp_native.settings.Fuse | None = None,
    ) -> RoutePlan:
        """
        What a call with this many rows would run. Nothing is routed.

        Args:
            rows: M.
            bias: with a residency bias of eps > 0.
            logits: with return_logits.
            fuse: instead of the router's own.

        Raises:
            TypeError, ValueError: a limit, or a named variant that does not exist for this request.
            DeviceError: a kernel that the device cannot run.
        """
    @property
    def fuse(self) -> qwisp_native.settings.Fuse:
        """
        What it was asked: False, True, "auto" or the name of a variant.
        """
    @property
    def gate(self) -> Gate:
        """
        Its gate.
        """
    @property
    def top_k(self) -> int:
        """
        K.
        """

class Timing:
    """
    Times arms against each other: command buffers of `layers` routes each, interleaved, every sample kept.

    For qwisp_native.bench, which draws the conclusions. For one thread at a time.

    Args:
        device: the device under test.
        arms: name -> fuse, as for Router; the first is what the others are held against.
        rows, hidden, experts, top_k: M >= 1, H, E, K.
        layers: routes in a command buffer, each with a gate of its own.
        x_sets: sets of input rows, one a round in rotation.
        blocks: sets of `layers` gates, in rotation.
        in_flight: command buffers committed at a time.
        concurrent: a concurrent encoder, with a barrier between layers.
        seed: of gates and rows.
        planted: a fault for tests (cpp/timing/planted.h); "": none.

    Raises:
        TypeError, ValueError: an argument, with what it may be.
        DeviceError, MemoryError: the device says no.
    """
    def __init__(
        self,
        device: Device,
        arms: dict[str, qwisp_native.settings.Fuse],
        *,
        rows: int,
        hidden: int,
        experts: int,
        top_k: int,
        layers: int,
        x_sets: int = 4,
        blocks: int = 1,
        in_flight: int = 2,
        concurrent: bool = False,
        seed: int = 0,
        planted: str = "",
    ) -> None: ...
    def compared(self) -> list[int]:
        """
        How often the results of each arm were held against those of another.
        """
    def difference(self) -> str:
        """
        The first difference between results on the same rows and gates; empty: none.
        """
    def encoded(self) -> list[tuple[list[str], int]]:
        """
        What an encoder saw of one command buffer of each arm: the kernels in order, and the barriers.
        """
    def planned(self) -> list[RoutePlan]:
        """
        The plan of one layer of each arm.
        """
    def run(
        self, first_round: int, rounds: int, rotate: bool = True
    ) -> list[tuple[int, int, int, int, int, int, float, float, int, int, int]]:
        """
        Times every arm once a round, for `rounds` rounds.

        Args:
            first_round: the number of the first; it fixes the order of the arms and the input rows.
            rounds: how many.
            rotate: take other gates with each command buffer, not with each round.

        Returns:
            One tuple a command buffer, in the order in which they ran; the fields are those of qwisp_native.bench.Sample.

        Raises:
            DeviceError: a command buffer failed.
        """

class DispatchProbe:
    """
    Command buffers of dispatches that do next to nothing, up to `most` of them.
    """
    def __init__(self, device: Device, most: int) -> None: ...
    def run(self, work: str, order: str, dispatches: int) -> tuple[float, float]:
        """
        Seconds of one command buffer: by the device's stamps, and from its commit until the host saw its end.

        Args:
            work: "empty" (nothing is copied) or "tiny" (one id is remapped).
            order: "serial", "concurrent", or "barriers" (concurrent, with a barrier between any two dispatches).
            dispatches: how many, from 1 to `most`.
        """

class ReadFloor:
    """
    Weights that are only read: what no route on a CPU can beat.

    Args:
        sets, bytes: how many, and the length of each, a multiple of 64; in memory like that of packed gates.

    Raises:
        ValueError: sets or bytes.
        MemoryError: not so much memory.
    """
    def __init__(self, sets: int, bytes: int) -> None: ...
    def run(self) -> None:
        """
        Reads every set in turn, each shared out among Device.threads.
        """

def available_devices() -> list[tuple[str, str]]:
    """
    (kind, name) of each device that can be used now.
    """

def encode_moe_route_rows(
    encoder: ComputeEncoder,
    x: Buffer,
    gate: Gate,
    scratch: RouteScratch,
    *,
    rows: int,
    fuse: qwisp_native.settings.Fuse | None = None,
    bias: RouteBias | None = None,
    diag: RouteDiag | None = None,
    remap: qwisp_native.arrays.ArrayInput | Buffer | None = None,
    return_logits: bool = False,
) -> RoutePlan:
    """
    Writes one layer's routing into an encoder. Returns the plan that it followed.

    Results are in the scratch once the command buffer has completed: inds and scores, and logits if the pair ran or if
    return_logits or diag asked for them. The same arguments encode the same commands. If it raises, nothing was encoded.

    Args:
        encoder: an open ComputeEncoder of the gate's device.
        x: float16 Buffer [>= rows, H], the hidden rows.
        gate: E experts, H columns.
        scratch: for E experts and K = its top_k, with room for the rows.
        rows: M, from 0 to the scratch's rows.
        fuse: None (the device's default, from QWISP_FUSE_ROUTE), False, True (fused where a variant exists, else the
            pair), "auto" (fused where it was measured to win), or a variant: "pair", "single", "last",
            "split_pair", "split_last".
        bias: prefer resident experts.
        diag: also leave telemetry: raw logits, and expert ids before any remap.
        remap: int32 Buffer or array [>= E]: inds become remap[inds], after diag. An array is copied.
        return_logits: raw logits in the scratch whatever the route.

    Raises:
        TypeError, ValueError: an argument, by name, with the value found and what it may be; a named variant that does
            not exist for this request.
        RuntimeError: the encoder has ended.
        DeviceError: a kernel that the device cannot run.
    """

def load_kernel_image(path: str) -> None:
    """
    For qwisp_native.testing.load_kernel_image.
    """

def plan(
    device: Device,
    rows: int,
    hidden: int,
    experts: int,
    top_k: int,
    fuse: qwisp_native.settings.Fuse | None = None,
    bias: bool = False,
    logits: bool = False,
    diag: bool = False,
    remap: bool = False,
) -> RoutePlan:
    """
    What a route of this shape would run. Nothing is routed.

    Args:
        device: the device that would run it.
        rows, hidden, experts, top_k: M >= 0, H, E, K. M * H and M * E must be below 2^31.
        fuse: None (the device's default, from QWISP_FUSE_ROUTE), False, True (fused where a variant exists, else the
            pair), "auto" (fused where it was measured to win), or a variant: "pair", "single", "last",
            "split_pair", "split_last".
        bias: with a residency bias of eps > 0.
        logits: with raw logits wanted.
        diag: with telemetry.
        remap: with a slot table.

    Raises:
        TypeError, ValueError: a limit, with the value found; a named variant that does not exist for this request.
        DeviceError: a kernel that the device cannot run.
    """

def record_route(
    x: Buffer,
    gate: Gate,
    scratch: RouteScratch,
    *,
    rows: int,
    fuse: qwisp_native.settings.Fuse | None = None,
    bias: RouteBias | None = None,
    diag: RouteDiag | None = None,
    remap: qwisp_native.arrays.ArrayInput | Buffer | None = None,
    return_logits: bool = False,
    concurrent: bool = False,
) -> list[typing.Any]:
    """
    For qwisp_native.testing.record_route.
    """

def scratch_state(scratch: RouteScratch) -> tuple[bytes, bytes]:
    """
    For qwisp_native.testing.scratch_is_cleared.
    """

def shader_sha256() -> str:
    """
    SHA-256, in hex, of the shader text in this module.
    """

def why_no_cuda_device() -> str:
    """
    Why "cuda" is not among available_devices(); "" if it is.
    """

__version__: str
compiler: str
