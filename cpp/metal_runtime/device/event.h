// Events between queues, and between queues and the host.
#pragma once
#include <cstdint>
#include <memory>

#include "metal_runtime/device/device.h"

namespace qwisp::metal {

// A value that only queues and hosts change; one lock and one condition for all events of the process.
class EventValue {
  public:
    uint64_t get() const;
    void set(uint64_t value);
    void wait(uint64_t value) const;                             // until it is `value` or more
    bool wait_for(uint64_t value, uint64_t milliseconds) const;  // false: not in time

  private:
    uint64_t value_ = 0;
};

struct EventState {
    const DeviceCore *core() const { return core_of(device.get()); }

    NS::SharedPtr<MTL::Device> device;
    std::shared_ptr<EventValue> value = std::make_shared<EventValue>();
    Label label = {};
};

const objc::PayloadClass<EventState> &event_class();  // of MTL::Event and MTL::SharedEvent

}  // namespace qwisp::metal
