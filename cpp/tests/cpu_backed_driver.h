// A driver that does what the cpu driver does: tests override what they are about.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "metal_runtime/drivers/cpu/cpu_driver.h"

namespace qwisp::test {

class CpuBackedDriver : public metal::Driver {
  public:
    std::string_view name() const override { return cpu_.name(); }
    std::string_view device_name() const override { return cpu_.device_name(); }
    metal::Limits limits() const override { return cpu_.limits(); }
    std::unique_ptr<metal::Memory> allocate(size_t length, metal::Storage storage) override {
        return cpu_.allocate(length, storage);
    }
    std::unique_ptr<metal::Memory> wrap(void *contents, size_t length) override {
        return cpu_.wrap(contents, length);
    }
    std::unique_ptr<metal::Module> compile(std::string_view text,
                                           const std::map<std::string, std::string> &macros,
                                           std::string *error) override {
        return cpu_.compile(text, macros, error);
    }
    std::string run(const std::vector<metal::Command> &commands) override { return cpu_.run(commands); }

  protected:
    metal::CpuDriver cpu_;
};

}  // namespace qwisp::test
