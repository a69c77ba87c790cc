// Command buffers and encoders for Python: misuse that Metal would abort on is refused here, by name.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "objects.h"

namespace qwisp::python {

// A queue has room for 64 command buffers and then waits until one of them completes: for ever, if all are
// held uncommitted. So Python may hold half, and Router always finds one.
class OpenCommands {
  public:
    static constexpr int kLimit = 32;
    explicit OpenCommands(std::shared_ptr<std::atomic<int>> count);  // RuntimeError if there are too many
    ~OpenCommands() { close(); }
    OpenCommands(const OpenCommands &) = delete;
    OpenCommands &operator=(const OpenCommands &) = delete;
    void close();  // committed

  private:
    std::shared_ptr<std::atomic<int>> count_;
};

class CommandsObject {
  public:
    explicit CommandsObject(DevicePtr device);
    ~CommandsObject();

    const DevicePtr &device() const { return device_; }
    // A new encoder's ticket; the encoder is open until it is ended.
    unsigned begin(bool concurrent);
    // `write` gets the open encoder; the scratch, if any, is kept and cleared again should the commands fail.
    void encode(unsigned ticket, std::shared_ptr<RouteScratch> scratch,
                const std::function<void(MTL::ComputeCommandEncoder *)> &write);
    void end(unsigned ticket);
    void end_if_open(unsigned ticket) noexcept;
    void commit();
    // Without the GIL. Throws DeviceError if the commands failed.
    void wait();

    const char *status() const;
    std::optional<double> gpu_seconds() const;

  private:
    [[noreturn]] void refuse(const char *call, const char *why) const;

    const DevicePtr device_;
    mutable std::mutex mutex_;  // never held while Python runs
    OpenCommands open_;
    NS::SharedPtr<MTL::CommandBuffer> buffer_;
    NS::SharedPtr<MTL::ComputeCommandEncoder> encoder_;  // the open one
    std::vector<std::shared_ptr<RouteScratch>> scratches_;
    unsigned tickets_ = 0;
    bool committed_ = false;
    bool incomplete_ = false;  // a route is encoded in part
    bool cleared_ = false;
};

// Ends its encoder when it is dropped.
class EncoderObject {
  public:
    EncoderObject(std::shared_ptr<CommandsObject> commands, bool concurrent)
        : commands(std::move(commands)), concurrent(concurrent), ticket(this->commands->begin(concurrent)) {}
    ~EncoderObject() { commands->end_if_open(ticket); }
    EncoderObject(const EncoderObject &) = delete;
    EncoderObject &operator=(const EncoderObject &) = delete;

    const std::shared_ptr<CommandsObject> commands;
    const bool concurrent;
    const unsigned ticket;
};

}  // namespace qwisp::python
