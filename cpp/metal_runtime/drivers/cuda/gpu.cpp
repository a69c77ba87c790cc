#include "gpu.h"

namespace qwisp::metal::cuda {
namespace {

constexpr int kOldestArch = 70;  // independent threads: lanes of a simdgroup may wait for words apart
constexpr int kSimdWidth = 32;

// After these nothing in the context works any more; all others are errors of one call.
bool ends_context(Result result) {
    switch (result) {
        case 3:    // not initialised: what a forked child gets
        case 4:    // deinitialised: the process exits
        case 46:   // device unavailable
        case 214:  // uncorrectable ECC
        case 220:  // uncorrectable NVLink
        case 226:  // an error contained in this process
        case 700:  // illegal address
        case 702:  // launch timeout
        case 709:  // context destroyed
        case 710:  // assert
        case 714:  // hardware stack error
        case 715:  // illegal instruction
        case 716:  // misaligned address
        case 717:  // invalid address space
        case 718:  // invalid program counter
        case 719:  // launch failed
        case 721:  // tensor memory leak
        case 911:  // external device
        case 999:  // unknown
            return true;
        default:
            return false;
    }
}

}  // namespace

Gpu::Gpu(int index) {
    const Api *const cuda = api();
    if (cuda == nullptr) {
        unusable_ = why_no_api();
        return;
    }
    int count = 0;
    if (cuda->device_count(&count) != kSuccess || index >= count) {
        unusable_ = "the CUDA driver has no device " + std::to_string(index);
        return;
    }
    char name[256] = {};
    int major = 0, minor = 0, width = 0;
    const auto read = [&](int &value, int attribute) {
        return cuda->device_attribute(&value, attribute, id_) == kSuccess;
    };
    const bool known = cuda->device_get(&id_, index) == kSuccess &&
                       cuda->device_name(name, sizeof name - 1, id_) == kSuccess &&
                       cuda->device_memory(&memory_, id_) == kSuccess && read(major, kAttributeMajor) &&
                       read(minor, kAttributeMinor) && read(width, kAttributeWarpSize) &&
                       read(max_threads_, kAttributeMaxThreads) &&
                       read(shared_memory_, kAttributeSharedMemory);
    name_ = name;
    arch_ = 10 * major + minor;
    if (!known) {
        unusable_ = "the CUDA driver does not describe device " + std::to_string(index);
    } else if (arch_ < kOldestArch || width != kSimdWidth) {
        unusable_ = name_ + ": compute capability " + std::to_string(major) + "." + std::to_string(minor) +
                    ", but it must be 7.0 or later";
    }
}

Gpu::~Gpu() {
    if (zeroes_ != nullptr) {
        const Current current(*this);
        if (current) api()->stream_destroy(zeroes_);
    }
    delete lost_.load();
}

std::string Gpu::context(ContextHandle *context) {
    if (std::string why = lost(); !why.empty())
        return why;  // before the lock: a fork may have left it locked
    const std::lock_guard lock(mutex_);
    if (context_ == nullptr) {
        ContextHandle made = nullptr;
        std::string error = check("making a context", api()->retain_context(&made, id_));
        if (!error.empty()) return error;
        context_ = made;
    }
    *context = context_;
    return {};
}

std::string Gpu::lost() const {
    const std::string *const why = lost_.load();
    return why == nullptr ? std::string() : *why;
}

void Gpu::lose(const std::string &why) {
    const std::string *expected = nullptr;
    auto *const text = new std::string("the CUDA device is lost to this process: " + why);
    if (!lost_.compare_exchange_strong(expected, text)) delete text;
}

std::string Gpu::check(const char *call, Result result) {
    if (result == kSuccess) return {};
    const std::string text = std::string("CUDA, ") + call + ": " + error_text(result);
    if (ends_context(result)) lose(text);
    return text;
}

std::string Gpu::zero(DevicePointer address, size_t length) {
    const std::lock_guard lock(mutex_);
    std::string error;
    if (zeroes_ == nullptr)
        error = check("making a stream", api()->stream_create(&zeroes_, kStreamNonBlocking));
    if (error.empty()) error = check("zeroing memory", api()->fill(address, 0, length, zeroes_));
    if (error.empty()) error = check("zeroing memory", api()->stream_wait(zeroes_));
    return error;
}

// Even with no context yet: libcuda itself was initialised before the fork.
void Gpu::after_fork_in_child() { lose("CUDA does not survive a fork; start processes afresh ('spawn')"); }

Current::Current(Gpu &gpu) {
    ContextHandle context = nullptr;
    error_ = gpu.context(&context);
    if (error_.empty()) error_ = gpu.check("entering the context", api()->push_context(context));
    if (error_.empty()) api()->exchange_capture_mode(&capture_mode_);
}

Current::~Current() {
    if (!error_.empty()) return;
    ContextHandle popped = nullptr;
    api()->exchange_capture_mode(&capture_mode_);
    api()->pop_context(&popped);
}

}  // namespace qwisp::metal::cuda
