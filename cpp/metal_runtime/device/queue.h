// Command queues: committed command buffers run in order, one at a time. Who waits for one runs it, and those
// before it, instead of sleeping: waking a thread costs more than many a command buffer. A thread of the
// queue runs what nobody waits for, and what must not run on the host's threads (Place::plain).
//
// With a driver's line, command buffers start on the device as soon as they are committed, in order; to run
// one then means to wait for its end on the device. One that waits for events (not Place::startable) starts
// when it is run, and those behind it after its end.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "metal_runtime/device/command_storage.h"
#include "metal_runtime/device/device.h"

namespace qwisp::metal {

class CommandBufferState;

// Shared by the MTL::CommandQueue, its command buffers and the thread. The thread starts at the first commit
// and ends with the MTL::CommandQueue; nobody joins it, so process exit never waits for it.
//
// While command buffers are waited for right after their commit, the thread is not woken for each: it naps,
// and looks for work that nobody has taken a millisecond later at most. All other commits wake it.
class Queue final : public ForkListener, public std::enable_shared_from_this<Queue> {
  public:
    // The position of a command buffer in the queue's order, from enqueue (or commit) on.
    struct Place {
        NS::SharedPtr<MTL::CommandBuffer> buffer;  // once committed
        bool abandoned = false;                    // will never be committed
        bool plain = false;                        // neither handlers nor events: any thread may run it
        bool startable = false;                    // the line may have it early
        enum { unstarted, starting, started } start = unstarted;
    };

    Queue(size_t limit, std::unique_ptr<Line> line) : limit_(limit), line_(std::move(line)) {}

    // At most `limit` command buffers exist that have neither completed nor been released: take_slot() waits.
    void take_slot();

    std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
    // With the lock held, which also guards the flags:
    std::shared_ptr<Place> enqueue();
    // Empty: it runs in its turn. Otherwise why there is no thread; the caller brings it to its end. If it
    // throws, nothing has changed.
    std::string commit(const std::shared_ptr<Place> &place, MTL::CommandBuffer *buffer, bool plain,
                       bool startable);
    void start_ready(std::unique_lock<std::mutex> &lock);  // unlocks meanwhile
    void complete(MTL::CommandBuffer *buffer);          // the other end of commit(); after the flags were set
    void give_up(const std::shared_ptr<Place> &place);  // will never be committed; `place` may be null
    void flags_changed() { changes_.notify_all(); }
    // `help`: meanwhile this thread may run command buffers.
    void wait(std::unique_lock<std::mutex> &lock, const bool &flag, bool help);

    // In a handler, or in whatever else runs within a command buffer of this queue.
    bool is_running_here() const {
        const auto here = std::this_thread::get_id();
        return thread_id_.load() == here || runner_.load() == here;
    }
    void close();  // the MTL::CommandQueue is gone, and with it all its command buffers

    void lock_for_fork() override { mutex_.lock(); }
    void unlock_in_parent() override { mutex_.unlock(); }
    // Buffers in flight end with an error; their handlers are the parent's to call.
    void recover_in_child() override;

    // How long a full queue may stay full while nothing is committed, before commandBuffer() throws.
    std::chrono::milliseconds stall_limit = std::chrono::seconds(10);
    Label label;
    Line *line() const { return line_.get(); }  // null: the driver has none
    double device_free = 0;                     // host clock; for what runs
    SpareStorage spare;                         // with the lock held

  private:
    void work();
    void rest(std::unique_lock<std::mutex> &lock);
    void start_thread();
    Place *next();                                      // null: nothing can run now
    std::shared_ptr<Place> next_to_start() const;       // null: nothing can start now
    void run_next(std::unique_lock<std::mutex> &lock);  // what next() gave
    void await_change(std::unique_lock<std::mutex> &lock);

    const size_t limit_;
    const std::unique_ptr<Line> line_;
    std::mutex mutex_;
    std::condition_variable arrivals_;  // for the thread: next() may have something
    std::condition_variable changes_;   // for everybody else: a flag was raised or a slot given
    std::deque<std::shared_ptr<Place>> places_;
    MTL::CommandBuffer *running_ = nullptr;
    bool running_early_ = false;                // it was started before it was run
    bool starting_ = false;                     // a thread is in start_ready()
    std::atomic<std::thread::id> runner_ = {};  // the thread that runs it
    bool waited_for_ = false;                   // the last plain one was run by a thread that waited
    bool napping_ = false;
    int naps_ = 0;          // since the last commit
    size_t existing_ = 0;   // slots taken
    size_t committed_ = 0;  // of which committed
    bool has_thread_ = false, closed_ = false;
    std::atomic<std::thread::id> thread_id_ = {};
    const ForkRegistration registration_{this};
};

struct QueueState {
    explicit QueueState(MTL::Device *device, size_t limit);
    ~QueueState() { shared->close(); }

    const NS::SharedPtr<MTL::Device> device;
    const std::shared_ptr<Queue> shared;
};

const objc::PayloadClass<QueueState> &queue_class();

MTL::CommandQueue *new_queue(MTL::Device *device, size_t max_command_buffers);

}  // namespace qwisp::metal
