// Queues of a driver that offers lines: what is started early, what is not, and what starting makes of
// errors.
#include <doctest/doctest.h>

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "fake_driver.h"

using namespace qwisp::test;

namespace {

// Writes down the values of fills: when they start, and when somebody has waited for their end.
class LineDriver final : public Driver {
  public:
    std::string_view name() const override { return "line"; }
    std::string_view device_name() const override { return "Line"; }
    Limits limits() const override { return {256, 1024, 1 << 20, 32}; }
    std::unique_ptr<Memory> allocate(size_t length, Storage) override {
        return std::make_unique<FakeMemory>(length);
    }
    std::unique_ptr<Memory> wrap(void *, size_t) override { return nullptr; }
    std::unique_ptr<Module> compile(std::string_view, const std::map<std::string, std::string> &,
                                    std::string *) override {
        return nullptr;
    }
    std::string run(const std::vector<Command> &) override { return "run() of a driver with lines"; }
    std::unique_ptr<Line> open_line() override { return std::make_unique<Starts>(*this); }

    void note(const std::string &what, int value) {
        const std::lock_guard lock(mutex);
        log += what + std::to_string(value) + ' ';
    }
    std::string taken_log() {
        const std::lock_guard lock(mutex);
        return std::exchange(log, {});
    }

    int out_of_memory = -1;  // this fill does not start

  private:
    struct Ends final : Flight {
        Ends(LineDriver &driver_, int value_) : driver(driver_), value(value_) {}
        std::string finish(double *) override {
            driver.note("ended ", value);
            return {};
        }
        LineDriver &driver;
        const int value;
    };
    struct Starts final : Line {
        explicit Starts(LineDriver &driver_) : driver(driver_) {}
        std::unique_ptr<Flight> start(const std::vector<Command> &commands) override {
            const int value = std::get<Fill>(commands.at(0)).value;
            if (value == driver.out_of_memory) throw std::bad_alloc();
            driver.note("started ", value);
            return std::make_unique<Ends>(driver, value);
        }
        LineDriver &driver;
    };

    std::mutex mutex;
    std::string log;
};

struct LineWorld {
    Pool pool;
    std::shared_ptr<LineDriver> driver = std::make_shared<LineDriver>();
    NS::SharedPtr<MTL::Device> device = NS::TransferPtr(new_device(driver));
    NS::SharedPtr<MTL::CommandQueue> queue = NS::TransferPtr(device->newCommandQueue());
    BufferPtr buffer = NS::TransferPtr(device->newBuffer(64, MTL::ResourceStorageModeShared));

    MTL::CommandBuffer *fill(int value, const BufferPtr &to, bool retains = true) const {
        auto *const commands =
            retains ? queue->commandBuffer() : queue->commandBufferWithUnretainedReferences();
        auto *const blit = commands->blitCommandEncoder();
        blit->fillBuffer(to.get(), NS::Range(0, 4), uint8_t(value));
        blit->endEncoding();
        return commands;
    }
};

std::string error_of(MTL::CommandBuffer *commands) {
    commands->waitUntilCompleted();
    return commands->error() ? text(commands->error()->localizedDescription()) : std::string();
}

}  // namespace

TEST_CASE("lines: in the order of the queue, whatever the order of the commits") {
    const LineWorld world;
    std::vector<MTL::CommandBuffer *> all;
    for (int i = 0; i < 3; ++i) {
        all.push_back(world.fill(i, world.buffer));
        all[i]->enqueue();
    }
    all[2]->commit();
    all[1]->commit();
    CHECK(world.driver->taken_log() == "");
    all[0]->commit();
    CHECK(error_of(all[2]) == "");
    const std::string log = world.driver->taken_log();
    CHECK(log.find("started 0") < log.find("started 1"));
    CHECK(log.find("started 1") < log.find("started 2"));
    CHECK(log.find("ended 0") < log.find("ended 1"));
    CHECK(log.find("ended 1") < log.find("ended 2"));
    CHECK(log.find("ended 2") != log.npos);
}

TEST_CASE("lines: one in front that is never committed holds nothing up") {
    const LineWorld world;
    {
        const Pool inner;
        world.fill(0, world.buffer)->enqueue();
    }
    auto *const commands = world.fill(1, world.buffer);
    commands->commit();
    std::string log = world.driver->taken_log();
    CHECK(log.starts_with("started 1 "));  // by the commit
    CHECK(error_of(commands) == "");
    log += world.driver->taken_log();
    CHECK(log == "started 1 ended 1 ");
}

TEST_CASE("lines: what does not start is an error, and does not run later, behind others") {
    const LineWorld world;
    world.driver->out_of_memory = 1;
    std::vector<MTL::CommandBuffer *> all;
    for (int i = 0; i < 3; ++i) {
        all.push_back(world.fill(i, world.buffer));
        all[i]->commit();
    }
    CHECK(error_of(all[0]) == "");
    CHECK(error_of(all[1]) == "command buffer: the driver failed to start it: out of memory");
    CHECK(error_of(all[2]) == "");
    const std::string log = world.driver->taken_log();
    CHECK(log.find("started 1") == log.npos);
    CHECK(log.find("ended 2") != log.npos);
}

TEST_CASE("lines: a buffer that is released too early is found before the start") {
    const LineWorld world;
    MTL::CommandBuffer *commands = nullptr;
    {
        const auto brief = NS::TransferPtr(world.device->newBuffer(64, MTL::ResourceStorageModeShared));
        commands = world.fill(1, brief, false);
    }
    commands->commit();
    CHECK(error_of(commands).find("was released before the command buffer") != std::string::npos);
    CHECK(world.driver->taken_log() == "");
}

TEST_CASE("lines: what signals an event runs on the line too, in its turn") {
    const LineWorld world;
    const auto event = NS::TransferPtr(world.device->newSharedEvent());
    auto *const one = world.fill(1, world.buffer), *const two = world.fill(2, world.buffer);
    one->encodeSignalEvent(event.get(), 1);
    one->commit();
    two->commit();
    CHECK(event->waitUntilSignaledValue(1, 10000));
    CHECK(error_of(two) == "");
    CHECK(error_of(one) == "");
    CHECK(world.driver->taken_log() == "started 1 ended 1 started 2 ended 2 ");
}
