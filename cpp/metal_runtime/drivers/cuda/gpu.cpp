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
        case 999:  // unknown
            return true;
        default:
            return false;
    }
}

}  // namespace

Gpu::Gpu(int index) : index_(index) {
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
                       read(max_threads_, kAttributeMaxThreads) && read(shared_memory_, kAttributeSharedMemory);
    name_ = name;
    arch_ = 10 * major + minor;
    if (!known) {
        unusable_ = "the CUDA driver does not describe device " + std::to_string(index);
    } else if (arch_ < kOldestArch || width != kSimdWidth) {
        unusable_ = name_ + ": compute capability " + std::to_string(major) + "." + std::to_string(minor) +
                    ", but it must be 7.0 or later";
    }
}

ContextHandle Gpu::context() {
    const std::lock_guard lock(mutex_);
    if (context_ == nullptr && !lost_.load()) check("making a context", api()->retain_context(&context_, id_));
    return context_;
}

std::string Gpu::lost() const {
    const std::string *const why = lost_.load();
    return why == nullptr ? std::string() : *why;
}

std::string Gpu::why_not_current() const {
    const std::string why = lost();
    return why.empty() ? "CUDA gives no context of " + name_ + "; its memory may be full" : why;
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

void Gpu::after_fork_in_child() {
    if (context_ != nullptr) lose("CUDA does not survive a fork; start processes afresh ('spawn')");
}

Result Gpu::clear(DevicePointer address, size_t length) {
    const std::lock_guard lock(clearing_);
    Result result = kSuccess;
    if (clearing_stream_ == nullptr) result = api()->stream_create(&clearing_stream_, kStreamNonBlocking);
    if (result == kSuccess) result = api()->fill(address, 0, length, clearing_stream_);
    return result == kSuccess ? api()->stream_wait(clearing_stream_) : result;
}

Current::Current(Gpu &gpu) {
    const ContextHandle context = gpu.lost_.load() ? nullptr : gpu.context();
    pushed_ = context != nullptr && api()->push_context(context) == kSuccess;
    capture_mode_ = kCaptureRelaxed;
    if (pushed_) api()->exchange_capture_mode(&capture_mode_);
}

Current::~Current() {
    ContextHandle popped = nullptr;
    if (!pushed_) return;
    api()->exchange_capture_mode(&capture_mode_);
    api()->pop_context(&popped);
}

}  // namespace qwisp::metal::cuda
