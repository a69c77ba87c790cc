// Routes on streams of the caller's, over a driver whose streams run at once on the CPU and keep a diary: the
// bits, and which memory is used when.
#include <set>

#include "cpu_backed_driver.h"
#include "metal_runtime/software_device.h"
#include "route/stream_router.h"
#include "route_fixture.h"

using namespace qwisp;
using namespace qwisp::test;

namespace {

using Diary = std::vector<std::string>;

class FakeStreams final : public metal::Streams {
  public:
    explicit FakeStreams(metal::CpuDriver &cpu) : cpu_(cpu) {}

    struct FakeMark final : metal::Mark {
        FakeMark(FakeStreams &streams_, metal::Stream stream_) : streams(streams_), stream(stream_) {}
        bool passed() override { return streams.all_passed; }
        void wait() override { streams.diary.push_back("host waits for " + std::to_string(stream)); }
        FakeStreams &streams;
        const metal::Stream stream;
    };

    std::unique_ptr<metal::Memory> wrap(uint64_t address, size_t length) override {
        return cpu_.wrap(reinterpret_cast<void *>(address), length);
    }
    std::string inspect(metal::Stream stream, metal::StreamState *state) override {
        if (stream == 0) return "no stream 0";
        const auto own = ids.find(stream);
        const bool is_capturing = capturing.count(stream) != 0;
        *state = {is_capturing ? capture : own == ids.end() ? stream + 1000 : own->second, is_capturing};
        return {};
    }
    std::string submit(const std::vector<metal::Command> &commands, metal::Stream stream) override {
        diary.push_back("submit " + std::to_string(stream));
        return fault.empty() ? cpu_.run(commands) : fault;
    }
    std::string mark(metal::Stream stream, std::unique_ptr<metal::Mark> *mark) override {
        diary.push_back("mark " + std::to_string(stream));
        *mark = std::make_unique<FakeMark>(*this, stream);
        return {};
    }
    std::string wait(metal::Stream stream, metal::Mark &mark) override {
        const auto other = static_cast<FakeMark &>(mark).stream;
        diary.push_back(std::to_string(stream) + " waits for " + std::to_string(other));
        return {};
    }
    std::string finish(metal::Stream stream) override {
        diary.push_back("finish " + std::to_string(stream));
        return {};
    }
    std::string finish_all() override {
        diary.push_back("finish all");
        return {};
    }

    Diary diary;
    std::set<metal::Stream> capturing;
    uint64_t capture = 5000;                // the id of the present one
    std::map<metal::Stream, uint64_t> ids;  // of handles that mean another stream now
    std::string fault;
    bool all_passed = false;

  private:
    metal::CpuDriver &cpu_;
};

class StreamDriver final : public CpuBackedDriver {
  public:
    std::string_view name() const override { return "streams"; }
    std::string_view device_name() const override { return "CPU with streams"; }
    metal::Limits limits() const override {
        metal::Limits limits = cpu_.limits();
        limits.unified_memory = false;
        return limits;
    }
    metal::Streams *streams() override { return &fake; }

    FakeStreams fake{cpu_};
};

constexpr int64_t kHidden = 512, kExperts = 64, kTopK = 8;

struct OnStreams {
    std::shared_ptr<StreamDriver> driver = std::make_shared<StreamDriver>();
    FakeStreams &streams = driver->fake;
    std::shared_ptr<Context> context;
    Layer layer = random_layer(kHidden, kExperts, 3);
    std::shared_ptr<Router> router;
    std::unique_ptr<StreamRouter> on_streams;
    Halfs x = random_rows(64, kHidden, 4);

    explicit OnStreams(Fuse fuse = Fuse::pair) {
        const auto device = NS::TransferPtr(metal::new_device(driver));
        context = Context::create(device.get());
        const auto gate =
            Gate::create(context, kExperts, kHidden, layer.weight, std::as_bytes(std::span(layer.scales)),
                         std::as_bytes(std::span(layer.biases)));
        router = std::make_shared<Router>(gate, kTopK, fuse);
        on_streams = std::make_unique<StreamRouter>(router);
    }

    StreamInput input(metal::Stream stream, int64_t rows = 1) const {
        return {.rows = rows, .x = reinterpret_cast<uint64_t>(x.data()), .bias = {}, .stream = stream};
    }
    std::shared_ptr<StreamResults> route(metal::Stream stream, int64_t rows = 1) {
        return on_streams->route(input(stream, rows));
    }
    Routed read(StreamResults &results, size_t rows, bool logits) const {
        Routed out{Ints(rows * kTopK), Halfs(rows * kTopK), Halfs(logits ? rows * kExperts : 0)};
        read_buffer(context->queue(), results.inds().get(), out.inds.data(), out.inds.size() * 4);
        read_buffer(context->queue(), results.scores().get(), out.scores.data(), out.scores.size() * 2);
        if (logits)
            read_buffer(context->queue(), results.logits().get(), out.logits.data(), out.logits.size() * 2);
        return out;
    }
    Diary told() { return std::exchange(streams.diary, {}); }
};

uint64_t address(const std::shared_ptr<StreamResults> &results) { return results->inds()->gpuAddress(); }

}  // namespace

TEST_CASE("a route on a stream gives the bits of any other, with every option") {
    Ints resident(kExperts);
    for (size_t e = 0; e < resident.size(); e += 3) resident[e] = 1;
    for (const Fuse fuse : {Fuse::pair, Fuse::single, Fuse::last}) {
        OnStreams all(fuse);
        const BufferPtr on_device =
            new_working_buffer(all.context->queue(), resident.data(), resident.size() * 4, "resident");
        for (const int64_t rows : {1, 2, 33, 64, 1}) {
            for (const bool logits : {false, true}) {
                for (const float eps : {0.0f, 0.125f}) {
                    StreamInput input = all.input(7, rows);
                    input.logits = logits;
                    input.bias = {on_device, eps};
                    const HostBias bias{resident, eps};
                    const Halfs x(all.x.begin(), all.x.begin() + rows * kHidden);
                    const auto results = all.on_streams->route(input);
                    CHECK(all.read(*results, size_t(rows), logits) == run(*all.router, x, &bias, logits));
                }
            }
        }
    }
}

TEST_CASE("memory of results is used again on its own stream alone, and only once nobody holds it") {
    OnStreams all;
    auto first = all.route(7);
    const auto second = all.route(7), other = all.route(9);
    CHECK(std::set<uint64_t>{address(first), address(second), address(other)}.size() == 3);
    const uint64_t was = address(first);
    first.reset();
    const auto elsewhere = all.route(9);
    CHECK(address(elsewhere) != was);
    CHECK(address(all.route(7)) == was);
    CHECK(address(all.route(7, 32)) == was);
    CHECK(address(all.route(7, 33)) != was);
    all.told();
    for (int i = 0; i < 100; ++i) all.route(7);
    CHECK(all.told() == Diary(100, "submit 7"));
    CHECK(address(all.route(7)) == was);
    std::vector<std::shared_ptr<StreamResults>> many;
    for (int i = 0; i < 100; ++i) many.push_back(all.route(7));
    many.clear();
    CHECK(all.route(7, 0)->rows() >= 1);  // nothing is put on the stream
    CHECK(all.told().size() == 101);
}

TEST_CASE("who is handed results waits for them, and the next user of the memory for who was handed it") {
    OnStreams all;
    auto results = all.route(7);
    all.told();
    results->hand_to(7);
    CHECK(all.told().empty());
    results->hand_to(9);
    results->hand_to(9);
    CHECK(all.told() == Diary{"mark 7", "9 waits for 7", "mark 7", "9 waits for 7"});
    const uint64_t was = address(results);
    results.reset();
    CHECK(all.told() == Diary{"mark 9"});
    CHECK(address(all.route(7)) == was);
    CHECK(all.told() == Diary{"7 waits for 9", "submit 7"});
    CHECK(address(all.route(7)) == was);
    CHECK(all.told() == Diary{"submit 7"});
    CHECK(mentions(message<DeviceError>([&] { all.route(7)->hand_to(0); }), {"no stream 0"}));
}

TEST_CASE("what is captured has memory of its own for ever") {
    OnStreams all;
    const auto before = all.route(7);
    const uint64_t free = address(all.route(7));  // that a call on this stream could use
    all.streams.capturing = {7};
    std::set<uint64_t> seen = {address(before)};
    for (int i = 0; i < 5; ++i) seen.insert(address(all.route(7)));
    CHECK(seen.size() == 6);
    CHECK(seen.count(free) == 0);
    const auto captured = all.route(7);
    CHECK(mentions(message<std::runtime_error>([&] { captured->finish(); }), {"capturing"}));
    CHECK(mentions(message<std::invalid_argument>([&] { before->hand_to(9); }), {"stream", "captured"}));
    CHECK(message<std::invalid_argument>([&] { captured->hand_to(9); }) == "no error");
    all.streams.capturing = {9};
    CHECK(mentions(message<std::invalid_argument>([&] { before->hand_to(9); }), {"stream", "captured"}));
    CHECK(mentions(message<std::invalid_argument>([&] { captured->hand_to(9); }), {"stream", "captured"}));
    CHECK(message<std::invalid_argument>([&] { before->hand_to(7); }) == "no error");
    all.streams.capturing = {7, 9};
    CHECK(mentions(message<std::invalid_argument>([&] { before->hand_to(7); }), {"stream", "captured"}));
    all.told();
    captured->hand_to(7);
    CHECK(all.told().empty());
    captured->hand_to(9);  // a fork of the same capture
    CHECK(all.told() == Diary{"mark 7", "9 waits for 7"});
    all.streams.capture++;
    CHECK(mentions(message<std::invalid_argument>([&] { captured->hand_to(7); }), {"stream", "captured"}));
    all.streams.capturing = {};
    for (int i = 0; i < 5; ++i) CHECK(seen.count(address(all.route(7))) == 0);
    all.told();
    captured->finish();
    before->finish();
    CHECK(all.told() == Diary{"finish all", "finish 7"});
}

TEST_CASE("memory that was handed to a stream which captures when it is dropped is not used again") {
    OnStreams all;
    auto results = all.route(7);
    results->hand_to(9);
    const uint64_t was = address(results);
    all.streams.capturing = {9};
    results.reset();
    all.streams.capturing = {};
    CHECK(address(all.route(7)) != was);
}

TEST_CASE("a handle that means another stream now is not taken for the one that it was") {
    OnStreams all;
    auto results = all.route(7);
    auto handed = all.route(7);
    handed->hand_to(9);
    const uint64_t was = address(results), was_handed = address(handed);
    all.streams.ids = {{7, 1}, {9, 2}};
    all.told();
    results->hand_to(5);
    results->finish();
    CHECK(all.told() == Diary{"finish all", "finish all"});
    handed.reset();
    results.reset();
    CHECK(all.told() == Diary{"mark 5"});
    CHECK(address(all.route(7)) != was);
    all.streams.ids = {};
    const auto first = all.route(7), second = all.route(7);
    CHECK(address(first) == was);
    CHECK(address(second) != was_handed);
}

TEST_CASE("x and residents are kept until the stream has passed their call") {
    OnStreams all;
    auto owner = std::make_shared<int>(1);
    const std::weak_ptr<int> alive = owner;
    StreamInput input = all.input(7);
    input.keep = std::move(owner);
    all.on_streams->route(input);
    input.keep = nullptr;
    CHECK(all.on_streams->done().empty());
    CHECK(!alive.expired());
    all.streams.all_passed = true;
    CHECK(all.on_streams->done().size() == 1);
    CHECK(alive.expired());

    all.streams.all_passed = false;
    const Ints ones(kExperts, 1);
    const auto biased = [&] {
        StreamInput with = all.input(7);
        with.bias = {new_working_buffer(all.context->queue(), ones.data(), ones.size() * 4, "resident"), 1};
        all.on_streams->route(with);
    };
    biased();
    all.told();
    biased();
    CHECK(all.told() == Diary{"submit 7", "mark 7"});
    all.streams.capturing = {7};
    biased();
    CHECK(all.told() == Diary{"submit 7"});
    all.streams.capturing = {};
    all.on_streams.reset();
    CHECK(all.told() == Diary{"host waits for 7", "finish all"});
}

TEST_CASE("a call that fails says why and leaves nothing half done behind") {
    OnStreams all(Fuse::last);
    const auto right = all.route(7);
    all.streams.fault = "out of luck";
    CHECK(mentions(message<DeviceError>([&] { all.route(7); }), {"out of luck"}));
    CHECK(mentions(message<DeviceError>([&] { all.route(0); }), {"no stream 0"}));
    all.streams.fault = "";
    CHECK(all.read(*all.route(7), 1, false) == all.read(*right, 1, false));
    CHECK(mentions(message<std::invalid_argument>([&] { all.route(7, -1); }), {"rows", "-1"}));
    for (int i = 0; i < 200; ++i) all.route(metal::Stream(10 + i));  // more streams than are remembered
    CHECK(all.read(*all.route(7), 1, false) == all.read(*right, 1, false));
}
