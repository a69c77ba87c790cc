#include "metal_runtime/drivers/cpu/vector/team.h"

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <iterator>
#include <system_error>
#include <thread>

#include "metal_runtime/device/background_thread.h"

namespace qwisp::metal::vector {

namespace {

// Long enough for the host to encode the next command buffer, short enough to cost no one a processor.
constexpr std::chrono::microseconds kAwake{50};

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

uint32_t available_processors() {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
#endif
    return std::max(1u, std::thread::hardware_concurrency());
}

bool has_part(uint64_t ticket) { return (ticket & 0xffff) < ((ticket >> 16) & 0xffff); }

}  // namespace

Team &Team::shared() {
    static Team *const team = new Team;  // never destroyed: helpers outlive main
    return *team;
}

namespace {
[[maybe_unused]] const Team *const at_load = &Team::shared();  // a fork may come during a later first use
}

Team::Team() : available_(std::min(available_processors(), kMost)) {}

void Team::set_threads(uint32_t threads) { wanted_ = threads; }

uint32_t Team::threads() const {
    const uint32_t wanted = wanted_;
    return wanted == 0 ? available_ : wanted;
}

Team::Session::Session(Team &team, uint64_t weights) : team_(team), threads_(team.threads()) {
    if (threads_ == 1 || team.busy_.exchange(true, std::memory_order_acquire)) return;
    held_ = true;
    if (team.helpers_ == 0 && weights < kWorthWaking) return;
    if (team.helpers_ < threads_ - 1) team.start_helpers(threads_ - 1);
    if (weights >= kWorthWaking) team.wake();
}

Team::Session::~Session() {
    if (held_) team_.busy_.store(false, std::memory_order_release);
}

void Team::start_helpers(uint32_t count) {
    try {
        while (helpers_ < count) {
            start_background_thread([this, helper = helpers_.load()] { help(helper); });
            helpers_++;
        }
    } catch (const std::system_error &) {  // no thread to be had: fewer will do
    }
}

void Team::wake() {
    if (sleepers_ == 0) return;
    keep_off_this_processor();
    wakes_++;
    wakes_.notify_all();
}

// Linux likes to wake a thread where its waker runs, which goes on computing: the helper would wait there for
// milliseconds, beside an idle processor.
void Team::keep_off_this_processor() {
#if defined(__linux__)
    cpu_set_t others;
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof others, &others) != 0) return;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) == 0) return;
    for (const std::atomic<int32_t> &id : ids_) {
        if (id != 0) sched_setaffinity(id, sizeof others, &others);
    }
#endif
}

void Team::share(uint32_t parts, Function function, const void *body) {
    function_.store(function, std::memory_order_relaxed);
    body_.store(body, std::memory_order_relaxed);
    left_.store(parts, std::memory_order_relaxed);
    const uint64_t epoch = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
    ticket_.store(epoch << 32 | uint64_t{parts} << 16, std::memory_order_release);
    uint64_t ticket;
    while (has_part(ticket = ticket_.load(std::memory_order_acquire))) work_one(ticket);
    for (uint32_t turn = 1; left_.load(std::memory_order_acquire) != 0; turn++) {
        pause();
        if (turn % 1024 == 0) std::this_thread::yield();  // the helper may need this very processor
    }
}

void Team::work_one(uint64_t ticket) {
    const Function function = function_.load(std::memory_order_relaxed);
    const void *const body = body_.load(std::memory_order_relaxed);
    if (!ticket_.compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel)) return;
    function(body, static_cast<uint32_t>(ticket & 0xffff));
    left_.fetch_sub(1, std::memory_order_release);
}

void Team::help([[maybe_unused]] uint32_t helper) {
#if defined(__linux__)
    if (helper < std::size(ids_)) ids_[helper] = static_cast<int32_t>(syscall(SYS_gettid));
#endif
    std::fesetenv(FE_DFL_ENV);  // a thread inherits its maker's
    auto until = std::chrono::steady_clock::now() + kAwake;
    for (uint32_t turn = 1;; turn++) {
        const uint64_t ticket = ticket_.load(std::memory_order_acquire);
        if (has_part(ticket)) {
            work_one(ticket);
            turn = 0;
            continue;
        }
        pause();
        if (turn % 64 != 0) continue;
        const auto now = std::chrono::steady_clock::now();
        if (turn == 64) until = now + kAwake;  // the first look since work
        if (now < until) continue;
        const uint32_t seen = wakes_;
        sleepers_++;
        if (wakes_ == seen) wakes_.wait(seen);
        sleepers_--;
        turn = 0;
    }
}

void Team::recover_in_child() {
    helpers_ = 0;
    sleepers_ = 0;
    for (std::atomic<int32_t> &id : ids_) id = 0;
    busy_ = false;
    left_ = 0;
    ticket_ = (ticket_ >> 32) << 32;
}

}  // namespace qwisp::metal::vector
