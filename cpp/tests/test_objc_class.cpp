// Classes defined in C++ and called through metal-cpp: argument passing, exceptions, lifetimes, blocks.
// Nothing here is particular to our runtime: on macOS the same tests run on Apple's.
// The methods take plain C structs, as an Objective-C implementation of Metal would.
#include <Block.h>
#include <doctest/doctest.h>
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "objc/define_class.h"

using qwisp::objc::payload;
using qwisp::objc::PayloadClass;

namespace {

struct Pair {
    unsigned long a, b;
};
struct Triple {
    unsigned long a, b, c;
};
struct TwoTriples {
    Triple origin, size;
};

struct Probe {
    std::string seen;
    unsigned long value = 7;
    std::shared_ptr<int> witness;
};

std::string show(const Triple &t) {
    return std::to_string(t.a) + "," + std::to_string(t.b) + "," + std::to_string(t.c);
}
unsigned long number(const void *pointer) { return reinterpret_cast<unsigned long>(pointer); }
template <class T>
T *fake(unsigned long value) {
    return reinterpret_cast<T *>(value);
}

// Selectors of many classes on one object: only their signatures matter.
const PayloadClass<Probe> &probe_class() {
    static const auto cls =
        PayloadClass<Probe>("QwispTestProbe")
            .method("setBuffers:offsets:withRange:",
                    [](Probe &self, void *buffers, void *offsets, Pair range) {
                        self.seen =
                            show({number(buffers), number(offsets), range.a}) + "," + std::to_string(range.b);
                    })
            .method("setSamplerState:lodMinClamp:lodMaxClamp:atIndex:",
                    [](Probe &self, void *state, float least, float most, unsigned long index) {
                        self.seen = std::to_string(number(state)) + "," + std::to_string(least) + "," +
                                    std::to_string(most) + "," + std::to_string(index);
                    })
            .method("setStageInRegion:",
                    [](Probe &self, TwoTriples region) {
                        self.seen = show(region.origin) + "," + show(region.size);
                    })
            .method(
                "copyFromTexture:sourceSlice:sourceLevel:sourceOrigin:sourceSize:toBuffer:destinationOffset:"
                "destinationBytesPerRow:destinationBytesPerImage:",
                [](Probe &self, void *texture, unsigned long slice, unsigned long level, Triple origin,
                   Triple size, void *buffer, unsigned long offset, unsigned long row, unsigned long image) {
                    self.seen = show({number(texture), slice, level}) + "," + show(origin) + "," +
                                show(size) + "," + show({number(buffer), offset, row}) + "," +
                                std::to_string(image);
                })
            .method("heapBufferSizeAndAlignWithLength:options:",
                    [](const Probe &, unsigned long length, unsigned long) {
                        return Pair{length, 256};
                    })
            .method("maxThreadsPerThreadgroup",
                    [](const Probe &) {
                        return Triple{1, 2, 3};
                    })
            .method("GPUStartTime", [](const Probe &) { return 1.5; })
            .method("floatValue", [](const Probe &) { return 2.25f; })
            .method("length", [](const Probe &self) { return self.value; })
            .method("setLabel:", [](Probe &self, NS::String *label) { self.seen = label->utf8String(); })
            .method("waitUntilCompleted", [](Probe &) { throw std::runtime_error("waited"); })
            .method("dispatchThreadgroups:threadsPerThreadgroup:",
                    [](Probe &, Triple groups, Triple threads) {
                        throw std::runtime_error(show(groups) + "," + show(threads));
                    })
            .method("maxTotalThreadsPerThreadgroup",
                    [](id self) -> unsigned long { return payload<Probe>(self).value + 1; })
            .method("threadgroupSizeMatchesTileSize",
                    [](const Probe &) -> bool { throw std::logic_error("bool"); })
            .method("GPUEndTime", [](const Probe &) -> double { throw std::logic_error("double"); })
            .method("sparseTileSizeWithTextureType:pixelFormat:sampleCount:",
                    [](const Probe &, unsigned long, unsigned long, unsigned long) -> Triple {
                        throw std::logic_error("struct");
                    })
            .registered();
    return cls;
}

template <class Api>
NS::SharedPtr<Api> make_probe() {
    return NS::TransferPtr(probe_class().create<Api>());
}
template <class Api>
const std::string &seen(const NS::SharedPtr<Api> &probe) {
    return payload<Probe>(probe.get()).seen;
}

}  // namespace

TEST_CASE("arguments and results of every kind arrive") {
    const auto encoder = make_probe<MTL::ComputeCommandEncoder>();
    encoder->setBuffers(fake<MTL::Buffer *const>(1), fake<NS::UInteger>(2), NS::Range(3, 4));
    CHECK(seen(encoder) == "1,2,3,4");
    encoder->setSamplerState(fake<MTL::SamplerState>(1), 0.5f, 7.5f, 9);
    CHECK(seen(encoder) == "1,0.500000,7.500000,9");
    encoder->setStageInRegion(MTL::Region(1, 2, 3, 4, 5, 6));
    CHECK(seen(encoder) == "1,2,3,4,5,6");
    const auto blit = make_probe<MTL::BlitCommandEncoder>();
    blit->copyFromTexture(fake<MTL::Texture>(1), 2, 3, MTL::Origin(4, 5, 6), MTL::Size(7, 8, 9),
                          fake<MTL::Buffer>(10), 11, 12, 13);
    CHECK(seen(blit) == "1,2,3,4,5,6,7,8,9,10,11,12,13");
    const auto device = make_probe<MTL::Device>();
    const auto size_and_align = device->heapBufferSizeAndAlign(77, MTL::ResourceOptions(0));
    CHECK(size_and_align.size == 77);
    CHECK(size_and_align.align == 256);
    const MTL::Size most = device->maxThreadsPerThreadgroup();
    CHECK(most.width == 1);
    CHECK(most.height == 2);
    CHECK(most.depth == 3);
    CHECK(make_probe<MTL::CommandBuffer>()->GPUStartTime() == 1.5);
    CHECK(make_probe<NS::Number>()->floatValue() == 2.25f);
    CHECK(make_probe<MTL::Buffer>()->length() == 7);
    CHECK(make_probe<MTL::ComputePipelineState>()->maxTotalThreadsPerThreadgroup() == 8);
}

TEST_CASE("nil answers zero") {
    // By function, since C++ forbids what metal-cpp's SharedPtr relies on: a member call through a null
    // pointer.
    const auto send_nil = [](const char *selector, auto *send) {
        return send(nullptr, sel_registerName(selector));
    };
    using Object = const void *;
    CHECK(send_nil("computeCommandEncoder", (Object(*)(Object, SEL))(&objc_msgSend)) == nullptr);
    CHECK(send_nil("status", (unsigned long (*)(Object, SEL))(&objc_msgSend)) == 0);
#if defined(__x86_64__)
    constexpr auto real_send = &objc_msgSend_fpret;
#else
    constexpr auto real_send = &objc_msgSend;
#endif
    CHECK(send_nil("GPUStartTime", (double (*)(Object, SEL))(real_send)) == 0.0);
    CHECK(send_nil("floatValue", (float (*)(Object, SEL))(real_send)) == 0.0f);
}

TEST_CASE("an exception thrown by a method reaches the caller of the metal-cpp function") {
    CHECK_THROWS_WITH(make_probe<MTL::CommandBuffer>()->waitUntilCompleted(), "waited");
    CHECK_THROWS_WITH(make_probe<MTL::CommandBuffer>()->GPUEndTime(), "double");
    CHECK_THROWS_WITH(make_probe<MTL::RenderPipelineState>()->threadgroupSizeMatchesTileSize(), "bool");
    const auto encoder = make_probe<MTL::ComputeCommandEncoder>();
    CHECK_THROWS_WITH(encoder->dispatchThreadgroups(MTL::Size(1, 2, 3), MTL::Size(4, 5, 6)), "1,2,3,4,5,6");
    const auto device = make_probe<MTL::Device>();
    CHECK_THROWS_WITH(device->sparseTileSize(MTL::TextureType2D, MTL::PixelFormatR8Unorm, 1), "struct");
}

TEST_CASE("the payload lives exactly as long as the object") {
    auto witness = std::make_shared<int>(1);
    auto buffer = NS::TransferPtr(probe_class().create<MTL::Buffer>(Probe{"", 3, witness}));
    CHECK(witness.use_count() == 2);
    NS::SharedPtr<MTL::Buffer> other = buffer;
    CHECK(buffer->retainCount() == 2);
    buffer.reset();
    CHECK(witness.use_count() == 2);
    other.reset();
    CHECK(witness.use_count() == 1);
}

TEST_CASE("find tells instances of a class from others") {
    const auto probe = make_probe<MTL::Buffer>();
    CHECK(probe_class().find(probe.get()) == &payload<Probe>(probe.get()));
    CHECK(probe_class().find(nullptr) == nullptr);
    CHECK(probe_class().find(MTLSTR("text")) == nullptr);
}

TEST_CASE("alloc and init work for a payload with a default constructor") {
    const auto cls = reinterpret_cast<NS::Object *>(probe_class().get());
    auto *object =
        reinterpret_cast<MTL::Buffer *(*)(const void *, SEL)>(&objc_msgSend)(cls, sel_registerName("alloc"));
    CHECK(NS::TransferPtr(object)->length() == 7);
}

TEST_CASE("a constructor that throws leaves no object behind") {
    struct Thrower {
        explicit Thrower(int) { throw std::invalid_argument("no"); }
        std::string text = std::string(100, 'x');
    };
    static const auto cls = PayloadClass<Thrower>("QwispTestThrower").registered();
    CHECK_THROWS_AS(cls.create<NS::Object>(1), std::invalid_argument);
}

TEST_CASE("autorelease pools release when they end, inner ones first") {
    const auto witness = std::make_shared<int>(1);
    const auto autoreleased = [&] { probe_class().create<NS::Object>(Probe{"", 0, witness})->autorelease(); };
    NS::AutoreleasePool *outer = NS::AutoreleasePool::alloc()->init();
    autoreleased();
    NS::AutoreleasePool *inner = NS::AutoreleasePool::alloc()->init();
    autoreleased();
    autoreleased();
    CHECK(witness.use_count() == 4);
    inner->release();
    CHECK(witness.use_count() == 2);
    outer->drain();
    CHECK(witness.use_count() == 1);
}

TEST_CASE("what a thread autoreleases outside a pool goes when it ends") {
    const auto witness = std::make_shared<int>(1);
    std::thread([&] { probe_class().create<NS::Object>(Probe{"", 0, witness})->autorelease(); }).join();
    CHECK(witness.use_count() == 1);
}

namespace {

using Handler = MTL::CommandBufferHandler;

// Keeps a block as a device keeps completion handlers.
struct HandlerList {
    std::vector<Handler> handlers;
    ~HandlerList() {
        for (Handler handler : handlers) Block_release(handler);
    }
};
const PayloadClass<HandlerList> &handler_class() {
    static const auto cls =
        PayloadClass<HandlerList>("QwispTestHandlers")
            .method("addCompletedHandler:",
                    [](HandlerList &self, Handler handler) { self.handlers.push_back(Block_copy(handler)); })
            .method("commit",
                    [](id self) {
                        for (Handler handler : payload<HandlerList>(self).handlers) {
                            handler(reinterpret_cast<MTL::CommandBuffer *>(self));
                        }
                    })
            .registered();
    return cls;
}

}  // namespace

TEST_CASE("a copied block keeps what it captured, and releases it") {
    const auto witness = std::make_shared<int>(0);
    {
        const auto buffer = NS::TransferPtr(handler_class().create<MTL::CommandBuffer>());
        const MTL::HandlerFunction count = [witness](MTL::CommandBuffer *) { ++*witness; };
        buffer->addCompletedHandler(count);
        buffer->addCompletedHandler(count);
        CHECK(witness.use_count() == 4);
        buffer->commit();
        CHECK(*witness == 2);
    }
    CHECK(witness.use_count() == 1);
}

TEST_CASE("an exception passes through a block") {
    const auto buffer = NS::TransferPtr(handler_class().create<MTL::CommandBuffer>());
    buffer->addCompletedHandler([](MTL::CommandBuffer *) { throw std::runtime_error("handler"); });
    CHECK_THROWS_WITH(buffer->commit(), "handler");
}

#if defined(__BLOCKS__)
TEST_CASE("blocks of the language: nested, with __block variables") {
    const auto witness = std::make_shared<int>(0);
    {
        const auto buffer = NS::TransferPtr(handler_class().create<MTL::CommandBuffer>());
        __block int calls = 0;
        __block std::shared_ptr<int> shared = witness;
        void (^inner)() = ^{
          ++calls;
          ++*shared;
        };
        buffer->addCompletedHandler(^(MTL::CommandBuffer *) {
          inner();
        });
        buffer->commit();
        buffer->commit();
        CHECK(calls == 2);
        CHECK(*witness == 2);
        buffer->addCompletedHandler(^(MTL::CommandBuffer *){
        });  // captures nothing: a global block
        buffer->commit();
        CHECK(calls == 3);
    }
    CHECK(witness.use_count() == 1);
}
#endif
