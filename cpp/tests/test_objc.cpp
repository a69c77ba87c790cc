// What only our own Objective-C runtime promises: named aborts, first use, threads, fork. Empty on macOS.
// An abort is tested in a child process: add a row by calling abort_message with the fault.
#if !defined(__APPLE__)
#include <CoreFoundation/CoreFoundation.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "objc/define_class.h"

using qwisp::objc::payload;
using qwisp::objc::PayloadClass;

namespace {

// Before any other static initialiser of this file, and in no order with metal-cpp's own.
[[gnu::init_priority(200)]] const struct Early {
    SEL selector = sel_registerName("retain");
    Class cls = objc_getClass("NSString");
    CFStringRef text = __CFStringMakeConstantString("early");
} early;

std::atomic<int> metal_definitions = 0;

struct Options {
    unsigned long level = 4;
};
struct Thing {
    explicit Thing(int v) : value(v) {}
    int value;
};
const PayloadClass<Thing> &thing_class() {
    static const auto cls =
        PayloadClass<Thing>("QwispTestThing")
            .method("length", [](const Thing &self) -> unsigned long { return self.value; })
            .registered();
    return cls;
}
MTL::Buffer *new_thing(int value = 1) { return thing_class().create<MTL::Buffer>(value); }

// Everything that `fault` wrote to stderr, if it ended in abort().
std::string abort_message(const std::function<void()> &fault) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);  // not doctest's
        dup2(ends[1], 2);
        fault();
        _exit(0);
    }
    close(ends[1]);
    std::string text;
    char buffer[512];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? text : "no abort; " + text;
}

// 0 if `work` ends in time in a child process and returns true.
int child_status(const std::function<bool()> &work) {
    const pid_t child = fork();
    if (child == 0) {
        std::signal(SIGALRM, SIG_DFL);
        alarm(60);
        _exit(work() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

bool contains(const std::string &text, const char *part) {
    const bool found = text.find(part) != std::string::npos;
    if (!found) MESSAGE(text << " lacks " << part);
    return found;
}

template <class R = void, class... A>
R send(const void *object, const char *selector, A... args) {
    return reinterpret_cast<R (*)(const void *, SEL, A...)>(&objc_msgSend)(object, sel_registerName(selector),
                                                                           args...);
}

// One round of what any thread may do at any time.
bool use_runtime(int seed) {
    NS::AutoreleasePool *pool = NS::AutoreleasePool::alloc()->init();
    const std::string name = "text" + std::to_string(seed % 97);
    NS::String *string = NS::String::string(name.c_str(), NS::UTF8StringEncoding);
    const bool ok = string->isEqualToString(reinterpret_cast<NS::String *>(
                        const_cast<struct __CFString *>(__CFStringMakeConstantString(name.c_str())))) &&
                    sel_registerName(name.c_str()) == sel_registerName(name.c_str()) &&
                    NS::TransferPtr(new_thing(seed))->length() == static_cast<unsigned long>(seed);
    pool->release();
    return ok;
}

}  // namespace

extern "C" void qwisp_define_metal_classes() {
    if (++metal_definitions == 1) throw std::runtime_error("the definition failed");
    PayloadClass<Options>("MTLCompileOptions")
        .method("init", [](id self) { return self; })
        .method("optimizationLevel", [](const Options &self) { return self.level; })
        .method("languageVersion",
                [](const Options &) -> unsigned long { throw std::runtime_error("options"); })
        .registered();
}

TEST_CASE("the runtime works from the first static initialiser on") {
    CHECK(early.selector == sel_registerName("retain"));
    CHECK(early.cls == object_getClass(reinterpret_cast<id>(MTLSTR("early"))));
    CHECK(static_cast<const void *>(early.text) == MTLSTR("early"));
    CHECK(std::string(sel_getName(early.selector)) == "retain");
}

TEST_CASE("Metal's classes are defined when a message first reaches one, also under load") {
    // The first attempt throws, which also shows that an exception passes through the slow path of message
    // send.
    CHECK_THROWS_WITH(MTL::CompileOptions::alloc(), "the definition failed");
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            auto options = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
            right += options->optimizationLevel() == MTL::LibraryOptimizationLevel(4);
        });
    }
    for (std::thread &thread : threads) thread.join();
    CHECK(right == 4);
    CHECK(metal_definitions == 2);
    const auto options = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
    CHECK_THROWS_WITH(options->languageVersion(), "options");
}

TEST_CASE("aborts name the class and the selector") {
    CHECK(contains(abort_message([] { send(new_thing(), "frobnicate:", 1); }),
                   "qwisp: unrecognized selector -[QwispTestThing frobnicate:]"));
    CHECK(contains(abort_message([] { send(thing_class().get(), "things"); }),
                   "unrecognized selector +[QwispTestThing things]"));
    CHECK(contains(abort_message([] { new_thing()->heap(); }), "-[QwispTestThing heap]"));
    CHECK(contains(
        abort_message([] { reinterpret_cast<MTL::Device *>(new_thing())->maxThreadsPerThreadgroup(); }),
        "-[QwispTestThing maxThreadsPerThreadgroup]"));
    CHECK(contains(abort_message([] { MTL::RenderPassDescriptor::alloc(); }),
                   "+[MTLRenderPassDescriptor alloc]: the class MTLRenderPassDescriptor is not implemented"));
    CHECK(contains(abort_message([] { send(thing_class().get(), "alloc"); }), "+[QwispTestThing alloc]"));
}

TEST_CASE("aborts name a null selector") {
    static volatile SEL null_selector = nullptr;
    const auto send_null = [](const void *object) {
        reinterpret_cast<void (*)(const void *, SEL)> (&objc_msgSend)(object, null_selector);
    };
    CHECK(
        contains(abort_message([&] { send_null(new_thing()); }), "null selector was sent to QwispTestThing"));
    CHECK(contains(abort_message([&] { send_null(new_thing()); }), "NS_PRIVATE_IMPLEMENTATION"));
    CHECK(contains(abort_message([&] { send_null(nullptr); }), "null selector was sent to nil"));
}

TEST_CASE("aborts name a freed object") {
    const auto freed = [] {
        MTL::Buffer *const buffer = new_thing();
        buffer->release();
        return buffer;
    };
    CHECK(contains(abort_message([&] { freed()->length(); }), "-[QwispTestThing length]"));
    CHECK(contains(abort_message([&] { freed()->length(); }), "which was deallocated"));
    CHECK(contains(abort_message([&] { freed()->release(); }), "-[QwispTestThing release]"));
    CHECK(contains(abort_message([&] { objc_release(reinterpret_cast<id>(freed())); }),
                   "-[QwispTestThing release]"));
    CHECK(contains(abort_message([&] { objc_retain(reinterpret_cast<id>(freed())); }),
                   "-[QwispTestThing retain]"));
    CHECK(contains(abort_message([&] { freed()->autorelease(); }), "-[QwispTestThing autorelease]"));
    CHECK(contains(abort_message([&] { thing_class().find(freed()); }), "-[QwispTestThing class]"));
}

TEST_CASE("aborts name what is wrong with a pool") {
    CHECK(contains(abort_message([] {
                       NS::AutoreleasePool *outer = NS::AutoreleasePool::alloc()->init();
                       NS::AutoreleasePool *inner = NS::AutoreleasePool::alloc()->init();
                       outer->release();
                       inner->release();
                   }),
                   "-[NSAutoreleasePool drain]"));
    CHECK(contains(abort_message([] {
                       NS::AutoreleasePool *pool = NS::AutoreleasePool::alloc()->init();
                       std::thread([&] { pool->release(); }).join();
                   }),
                   "another thread made it"));
}

TEST_CASE("aborts name a class or method defined twice") {
    thing_class();
    CHECK(contains(abort_message([] { PayloadClass<Thing>("QwispTestThing"); }),
                   "QwispTestThing exists already"));
    CHECK(contains(
        abort_message([] {
            PayloadClass<Thing>("QwispTestOther").method("x", [](Thing &) {}).method("x", [](Thing &) {});
        }),
        "[QwispTestOther x] is defined twice"));
}

TEST_CASE("introspection") {
    const auto thing = NS::TransferPtr(new_thing());
    CHECK(send<bool>(thing.get(), "respondsToSelector:", sel_registerName("length")));
    CHECK_FALSE(send<bool>(thing.get(), "respondsToSelector:", sel_registerName("heap")));
    CHECK(send<bool>(thing.get(), "isKindOfClass:", objc_getClass("NSObject")));
    CHECK(send<Class>(thing.get(), "superclass") == objc_getClass("NSObject"));
    CHECK(std::string(class_getName(send<Class>(thing.get(), "class"))) == "QwispTestThing");
    CHECK(send<const void *>(thing_class().get(), "retain") == thing_class().get());
    NS::AutoreleasePool *pool = NS::AutoreleasePool::alloc()->init();
    CHECK(std::string(thing->description()->utf8String()).rfind("<QwispTestThing: 0x", 0) == 0);
    pool->release();
}

TEST_CASE("a method added later is seen by subclasses and by running threads") {
    std::atomic<bool> stop = false;
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i) {
        readers.emplace_back([&] {
            for (int n = 0; !stop || n < 100; ++n) NS::TransferPtr(new_thing(n))->length();
        });
    }
    for (int i = 0; i < 40; ++i) {
        const std::string name = "qwispLateMethod" + std::to_string(i);
        const auto late = +[](id, SEL) -> long { return 11; };
        class_addMethod(objc_getClass("NSObject"), sel_registerName(name.c_str()),
                        reinterpret_cast<IMP>(late), "q@:");
        CHECK(send<long>(NS::TransferPtr(new_thing()).get(), name.c_str()) == 11);
    }
    stop = true;
    for (std::thread &reader : readers) reader.join();
}

TEST_CASE("threads share classes, selectors, constants and counts") {
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    const auto shared = NS::TransferPtr(new_thing(5));
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 500; ++i) {
                wrong += !use_runtime(t * 1000 + i);
                const NS::SharedPtr<MTL::Buffer> mine = shared;
                wrong += mine->length() != 5;
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(shared->retainCount() == 1);
}

TEST_CASE("a forked child can use the runtime, whatever other threads held") {
    std::atomic<bool> stop = false;
    std::vector<std::thread> busy;
    for (int t = 0; t < 2; ++t) {
        busy.emplace_back([&, t] {
            for (int i = 0; !stop; ++i) use_runtime(t * 100000 + i);
        });
    }
    int failures = 0;
    for (int i = 0; i < 50; ++i)
        failures += child_status([i] { return use_runtime(i) && use_runtime(i + 1); }) != 0;
    stop = true;
    for (std::thread &thread : busy) thread.join();
    CHECK(failures == 0);
}
#endif
