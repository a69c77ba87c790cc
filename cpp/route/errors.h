// Errors of the route library. Arguments that cannot be are std::invalid_argument.
#pragma once
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace qwisp {

// The device said no: a shader that does not compile, a pipeline that cannot be made, a command buffer that
// failed.
class DeviceError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class AllocationError : public std::bad_alloc {
  public:
    explicit AllocationError(std::string message) : message_(std::move(message)) {}
    const char *what() const noexcept override { return message_.c_str(); }

  private:
    std::string message_;
};

}  // namespace qwisp
