// Vector kernels without Python: bits of every target that runs here against the scalar contract (under
// qemu-user NEON's too, where there is no Python), the exponential over its domain, memory, and forks.
#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "child.h"
#include "metal_runtime/drivers/cpu/cpu_memory.h"
#include "metal_runtime/drivers/cpu/vector/large_pages.h"
#include "metal_runtime/drivers/cpu/vector/targets.h"
#include "metal_runtime/drivers/cpu/vector/team.h"
#include "vector_reference.h"

using namespace qwisp::metal;
using namespace qwisp::test;

TEST_CASE("vector: exp is the f32 nearest to that of f64, on every target") {
    constexpr uint32_t kStride = 997;  // prime: every exponent and both ends of each are met
    std::vector<float> xs = {0.0f, -0.0f, -104.0f, std::nextafter(-104.0f, -1e9f), -1e30f, -INFINITY, NAN};
    for (uint32_t bits = 0x80000000u; bits <= std::bit_cast<uint32_t>(-104.0f); bits += kStride) {
        xs.push_back(std::bit_cast<float>(bits));
    }
    xs.resize((xs.size() + 15) / 16 * 16);
    std::vector<float> got(xs.size());
    for (const vector::Target *target : vector::targets()) {
        CAPTURE(target->name);
        target->exponentials(xs.data(), xs.size(), got.data());
        size_t wrong = 0;
        for (size_t i = 0; i < xs.size(); i++) {
            const auto want = static_cast<float>(std::exp(static_cast<double>(xs[i])));
            wrong += std::isnan(want) ? !std::isnan(got[i])
                                      : std::bit_cast<uint32_t>(want) != std::bit_cast<uint32_t>(got[i]);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("vector: random and adversarial rows have the scalar contract's bits, on every target") {
    const char *const asked = std::getenv("QWISP_TEST_EXPERT_ROWS");
    const size_t expert_rows = asked != nullptr ? std::stoul(asked) : 100'000;
    for (const vector::Target *target : vector::targets()) {
        MESSAGE(std::string(target->name) << ": " << expert_rows << " expert-rows");
        CHECK(RandomRows(*target, 1).compare(expert_rows).value_or("") == "");
    }
}

TEST_CASE("vector: small allocations share a large page, and none overlap") {
    constexpr uintptr_t kPage = uintptr_t{2} << 20;
    const auto at = [](const std::shared_ptr<std::byte> &memory) {
        return reinterpret_cast<uintptr_t>(memory.get());
    };
    for (const size_t length : {size_t{1}, size_t{576} << 10, size_t{3} << 20}) {
        std::vector<std::shared_ptr<std::byte>> all;
        std::set<uintptr_t> pages;
        for (int i = 0; i < 6; i++) {
            all.push_back(vector::large_page_memory(length));
            CHECK(at(all[i]) % 64 == 0);
            for (int j = 0; j < i; j++) {
                CHECK((at(all[j]) + length <= at(all[i]) || at(all[i]) + length <= at(all[j])));
            }
            pages.insert(at(all[i]) / kPage);
            std::memset(all[i].get(), i, length);
        }
        if (length < kPage) CHECK(pages.size() <= 3);
        all.erase(all.begin(), all.end() - 1);
        for (size_t i = 0; i < length; i += 4096) CHECK(all[0].get()[i] == std::byte{5});
    }
    CHECK_THROWS_AS(vector::large_page_memory(SIZE_MAX), std::bad_alloc);
}

TEST_CASE("vector: a helper that fell asleep in a session is woken for large work") {
    vector::Team &team = vector::Team::shared();
    team.set_threads(2);
    {
        vector::Team::Session session(team, UINT64_MAX);
        REQUIRE(session.threads() == 2);
        for (int i = 0; i < 3; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            std::atomic<int> inside = 0;
            std::atomic<bool> both = false;
            session.run(2, vector::Team::kWorthWaking, [&](uint32_t) {
                const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
                inside++;
                while (!both && std::chrono::steady_clock::now() < end) {
                    if (inside == 2) both = true;
                }
                inside--;
            });
            CHECK(both);
        }
    }
    team.set_threads(0);
}

// The thread sanitizer does not follow a child of a process with threads.
TEST_CASE("vector: a child finds what is derived from memory unlocked" * doctest::skip(QWISP_SANITIZED)) {
    const auto memory = CpuMemory::allocate(64, Storage::private_);
    std::atomic<bool> ends = false;
    std::thread other([&] {
        while (!ends) memory->derived();
    });
    std::string outcome = "exit 0";
    for (int i = 0; i < 100 && outcome == "exit 0"; i++) {
        outcome = in_child([&] { return memory->derived() == nullptr ? 0 : 1; });
    }
    ends = true;
    other.join();
    CHECK(outcome == "exit 0");
}
