// The CUDA driver over the fake CUDA, through Metal's calls.
#pragma once
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fake_cuda/fake_cuda.h"
#include "fake_driver.h"
#include "metal_runtime/drivers/cpu/images.h"
#include "metal_runtime/drivers/cuda/cuda_driver.h"
#include "metal_runtime/drivers/cuda/cuda_memory.h"
#include "route_types.h"

namespace qwisp::test {

inline FakeCuda &fake() {
    static FakeCuda *const once = [] {
        void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        void *const symbol = library ? dlsym(library, "qwisp_fake_cuda") : nullptr;
        if (!symbol)
            throw std::runtime_error("no fake CUDA: start this test with ctest, or set LD_LIBRARY_PATH");
        return reinterpret_cast<FakeCuda *(*)()>(symbol)();
    }();
    return *once;
}

// Zero lives are left out; modules stay loaded.
inline std::map<std::string, int> leaked() {
    auto all = fake().live();
    all.erase("module");
    return all;
}
// Queues end on threads of their own.
inline bool comes_true(const std::function<bool()> &is_it) {
    for (int i = 0; i < 5000; ++i) {
        if (is_it()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

// table[] is looked up in place: inds[i] = table[inds[i]].
inline void remap(void **parameters) {
    const auto pointer = [&](int i) {
        return static_cast<int *>(fake().at(*static_cast<uint64_t *>(parameters[i])));
    };
    const auto args = *static_cast<RemapArgs *>(parameters[2]);
    for (uint32_t i = 0; i < args.count; ++i) pointer(0)[i] = pointer(1)[pointer(0)[i]];
}

inline std::string own_text() {
    const simt::KernelImage &own = *simt::own_image();
    return std::string(own.text, own.text_length);
}

// A fresh fake with a device over it. Encoded objects are autoreleased: the pool must go before the device.
struct CudaWorld {
    static constexpr int kCount = 4;

    // `beside`: another one goes on.
    explicit CudaWorld(int index = 0, bool beside = false) : gpu(make_gpu(index, beside)) {}

    Pool pool;
    std::shared_ptr<cuda::Gpu> gpu;
    std::shared_ptr<CudaDriver> driver = std::make_shared<CudaDriver>(gpu);
    NS::SharedPtr<MTL::Device> device = NS::TransferPtr(new_device(driver));
    NS::SharedPtr<MTL::CommandQueue> queue = NS::TransferPtr(device->newCommandQueue());

    static std::shared_ptr<cuda::Gpu> make_gpu(int index, bool beside) {
        static std::weak_ptr<cuda::Gpu> last;
        if (!beside) {
            if (!comes_true([] { return last.expired(); }))
                throw std::runtime_error("a device is still in use");
            fake().reset();
            fake().set_kernel("slot_remap_rows", {8, 8, sizeof(RemapArgs)}, remap);
        }
        auto gpu = std::make_shared<cuda::Gpu>(index);
        if (!beside) last = gpu;
        return gpu;
    }

    PipelinePtr pipeline(const char *name, const std::string &kernels = own_text(),
                         std::string *why = nullptr) const {
        NS::Error *error = nullptr;
        const auto told = [&] {
            if (why) *why = error ? text(error->localizedDescription()) : "no error";
            return PipelinePtr();
        };
        const auto library = NS::TransferPtr(
            device->newLibrary(string(kernels.c_str()), static_cast<MTL::CompileOptions *>(nullptr), &error));
        if (!library) return told();
        const auto function = NS::TransferPtr(library->newFunction(string(name)));
        auto made = NS::TransferPtr(device->newComputePipelineState(function.get(), &error));
        return made ? made : told();
    }
    BufferPtr buffer(size_t length, bool is_private = false) const {
        return NS::TransferPtr(device->newBuffer(
            length, is_private ? MTL::ResourceStorageModePrivate : MTL::ResourceStorageModeShared));
    }
    BufferPtr numbers(std::vector<int> values) const {
        return NS::TransferPtr(
            device->newBuffer(values.data(), values.size() * sizeof(int), MTL::ResourceStorageModeShared));
    }
    static std::vector<int> ints(const BufferPtr &buffer) {
        const auto *const first = static_cast<const int *>(buffer->contents());
        return {first, first + buffer->length() / sizeof(int)};
    }

    // The same remap, `times` in a row.
    void encode(MTL::CommandBuffer *commands, const PipelinePtr &pipeline, const BufferPtr &inds,
                const BufferPtr &table, int times, uint64_t groups = 1) const {
        auto *const encoder = commands->computeCommandEncoder();
        const RemapArgs args{kCount, kCount};
        encoder->setComputePipelineState(pipeline.get());
        encoder->setBuffer(inds.get(), 0, kRemapInds);
        encoder->setBuffer(table.get(), 0, kRemapTable);
        encoder->setBytes(&args, sizeof args, kRemapArgs);
        for (int i = 0; i < times; ++i)
            encoder->dispatchThreadgroups(MTL::Size(groups, 1, 1), MTL::Size(256, 1, 1));
        encoder->endEncoding();
    }
    MTL::CommandBuffer *remaps(const PipelinePtr &pipeline, const BufferPtr &inds, const BufferPtr &table,
                               int times, uint64_t groups = 1) const {
        auto *const commands = queue->commandBuffer();
        encode(commands, pipeline, inds, table, times, groups);
        return commands;
    }
};

// Empty if it ended well.
inline std::string outcome(MTL::CommandBuffer *commands) {
    commands->waitUntilCompleted();
    return commands->error() ? text(commands->error()->localizedDescription()) : std::string();
}
inline std::string ran(MTL::CommandBuffer *commands) {
    commands->commit();
    return outcome(commands);
}
inline bool contains(const std::string &all, const std::string &part) { return all.find(part) != all.npos; }

}  // namespace qwisp::test
