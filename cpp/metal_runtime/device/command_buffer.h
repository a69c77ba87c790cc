// Command buffers: what is encoded, what it needs, and its way through the queue.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "metal_runtime/device/command_storage.h"
#include "metal_runtime/device/queue.h"

namespace qwisp::metal {

class Encoder;

class CommandBufferState {
  public:
    CommandBufferState(MTL::CommandQueue *queue, bool retains);
    ~CommandBufferState();

    // Encoding: by one thread at a time. Throws ValidationError and remembers the first one.
    [[noreturn]] void misuse(Misuse misuse, const std::string &message);
    void begin(Encoder *encoder, const char *call);
    void end(Encoder *encoder);
    void drop(const Encoder &encoder);  // released while open
    template <class C>
    void encode(const C &command) {
        storage_->segments.back().commands.emplace_back(command);
    }
    void encode_event(const MTL::Event *event, uint64_t value, bool signals);
    void hold(const std::shared_ptr<Allocation> &one) { hold(one, storage_->allocations); }
    void hold(const std::shared_ptr<Pipeline> &one) { hold(one, storage_->pipelines); }
    std::span<const Binding> keep(std::span<const Binding> bindings);
    const void *keep(const void *bytes, size_t length);
    void add_handler(BlockPointer block, bool completed);
    void push_debug_group() { ++debug_groups_; }
    void pop_debug_group();
    uint32_t next_phase() { return ++phase_; }
    void count_barriers(uint64_t all, uint64_t superfluous);

    // The way through the queue.
    void enqueue();
    void commit(MTL::CommandBuffer *self);
    void commit_on_stream(Streams &streams, uint64_t stream);  // past the queue
    void start() noexcept;                                     // by the queue, early; before run()
    void wait(bool completed);                                 // or scheduled
    void run(MTL::CommandBuffer *self) noexcept;               // by the queue
    void lose_in_fork();

    MTL::CommandBufferStatus status() const { return status_.load(std::memory_order_acquire); }
    bool ended() const { return status() >= MTL::CommandBufferStatusCompleted; }
    NS::Error *error() const;
    double time(double CommandBufferState::*which) const { return ended() ? this->*which : 0.0; }

    const DeviceCore *core() const { return core_; }
    MTL::CommandQueue *queue() const { return queue_.get(); }
    bool retains() const { return retains_; }
    uint64_t barriers() const { return barriers_; }
    uint64_t superfluous_barriers() const { return superfluous_barriers_; }

    Label label;
    double kernel_start = 0, kernel_end = 0, gpu_start = 0, gpu_end = 0;  // seconds, host clock

  private:
    template <class T>
    void hold(const std::shared_ptr<T> &one, std::vector<std::shared_ptr<T>> &all) {
        if (one->holder.load(std::memory_order_relaxed) == id_) return;
        all.push_back(one);
        one->holder.store(id_, std::memory_order_relaxed);
    }
    void check_changeable(const char *call);
    void check_closed(const char *call);
    bool is_plain() const;
    [[noreturn]] void refuse_commit(Misuse misuse, const std::string &message);
    void check_complete();  // before a commit
    void set_ended(MTL::CommandBufferError code, const std::string &fault);
    std::string execute();
    std::string run_commands(const std::vector<Command> &commands);
    std::string released_too_early() const;
    void finish(MTL::CommandBuffer *self, MTL::CommandBufferError code, const std::string &fault);

    const NS::SharedPtr<MTL::CommandQueue> queue_;
    const std::shared_ptr<Queue> runner_;
    const DeviceCore *const core_;
    const uint64_t id_;
    const bool retains_;

    std::unique_ptr<CommandStorage> storage_;  // null once it has run
    std::vector<Block> scheduled_handlers_, completed_handlers_;
    Encoder *open_encoder_ = nullptr;
    Label first_misuse_;  // a Label, because any thread may wait too early
    bool dropped_encoder_ = false;
    size_t debug_groups_ = 0;
    uint32_t phase_ = 0;
    uint64_t barriers_ = 0, superfluous_barriers_ = 0;

    std::shared_ptr<Queue::Place> place_;
    bool scheduled_ = false, done_ = false;  // guarded by the queue
    std::atomic<MTL::CommandBufferStatus> status_ = MTL::CommandBufferStatusNotEnqueued;
    MTL::CommandBufferError error_code_ = MTL::CommandBufferErrorNone;
    double device_seconds_ = 0;       // as the device itself counts them
    std::unique_ptr<Flight> flight_;  // of the only segment, once started
    bool started_ = false, start_failed_ = false;
    std::string fault_;
};

const objc::PayloadClass<CommandBufferState> &command_buffer_class();

}  // namespace qwisp::metal
