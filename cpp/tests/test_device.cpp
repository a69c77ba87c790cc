// The Metal device classes over a driver of C++ functions: devices, buffers, libraries, pipelines, encoders.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <limits>

#include "fake_driver.h"
#include "metal_runtime/device/recording.h"

using namespace qwisp::test;

// Fork tests start threads in the child of a process that has threads.
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_options();
extern "C" const char *__tsan_default_options() { return "die_after_fork=0"; }

TEST_CASE("device: properties come from the driver") {
    World world;
    CHECK(text(world.device->name()) == "Fake device");
    CHECK(world.device->registryID() != 0);
    CHECK(world.device->maxThreadsPerThreadgroup().width == 256);
    CHECK(world.device->maxThreadgroupMemoryLength() == 1024);
    CHECK(world.device->maxBufferLength() == 1 << 20);
    CHECK(world.device->recommendedMaxWorkingSetSize() == 1 << 20);
    CHECK(world.device->hasUnifiedMemory());
    CHECK(world.device->supportsFamily(MTL::GPUFamilyApple7));
    CHECK_FALSE(world.device->supportsFamily(MTL::GPUFamilyApple8));
    MTL::Timestamp cpu = 0, gpu = 0;
    world.device->sampleTimestamps(&cpu, &gpu);
    CHECK(cpu == gpu);
    CHECK(cpu > 0);
}

TEST_CASE("device: shuffle seed and driver are reached from outside") {
    World world;
    CHECK(driver_of(world.device.get()) == world.driver.get());
    CHECK(set_shuffle_seed(world.device.get(), 7));
    CHECK(shuffle_seed(world.device.get()) == 7);
    CHECK(set_shuffle_seed(world.device.get(), std::nullopt));
    CHECK_FALSE(shuffle_seed(world.device.get()));
    CHECK(driver_of(nullptr) == nullptr);
    CHECK_FALSE(set_shuffle_seed(nullptr, 7));
}

TEST_CASE("device: software devices are always the same objects") {
    const Pool pool;
    const auto first = NS::TransferPtr(qwisp_copy_software_devices());
    const auto second = NS::TransferPtr(qwisp_copy_software_devices());
    REQUIRE(first->count() == 1);
    CHECK(first->object(0) == second->object(0));
#if !defined(__APPLE__)
    const auto system = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
    CHECK(static_cast<NS::Object *>(system.get()) == first->object(0));
    // metal-cpp's CopyAllDevices() asks for a macOS version first, and may give nil elsewhere.
    if (const auto all = NS::TransferPtr(MTL::CopyAllDevices())) CHECK(all->object(0) == first->object(0));
    NS::Object *observer = nullptr;
    const auto observed = NS::TransferPtr(MTL::CopyAllDevicesWithObserver(
        &observer, MTL::DeviceNotificationHandlerFunction([](auto *, auto *) {})));
    CHECK(observed->object(0) == first->object(0));
    MTL::RemoveDeviceObserver(observer);
#endif
}

TEST_CASE("buffer: the three kinds") {
    World world;
    const size_t before = world.device->currentAllocatedSize();
    const auto page = size_t(sysconf(_SC_PAGESIZE));
    {
        const auto empty = NS::TransferPtr(world.device->newBuffer(16, MTL::ResourceStorageModeShared));
        CHECK(floats(empty)[3] == 0.0f);
        CHECK(empty->length() == 16);
        CHECK(empty->device() == world.device.get());
        CHECK(empty->gpuAddress() != 0);
        CHECK(empty->storageMode() == MTL::StorageModeShared);
        CHECK(empty->label() == nullptr);
        empty->setLabel(string("a label"));
        CHECK(text(empty->label()) == "a label");
        CHECK(world.device->currentAllocatedSize() == before + 16);

        const float values[] = {1, 2, 3};
        const auto copied =
            NS::TransferPtr(world.device->newBuffer(values, 12, MTL::ResourceStorageModeShared));
        CHECK(floats(copied)[2] == 3.0f);

        void *const pages = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        size_t freed = 0;
        size_t *const where = &freed;
        auto wrapped = NS::TransferPtr(world.device->newBuffer(
            pages, page, MTL::ResourceStorageModeShared, TEST_BLOCK(void *memory, NS::UInteger length) {
                munmap(memory, length);
                *where = length;
            }));
        CHECK(wrapped->contents() == pages);
        CHECK(freed == 0);
        wrapped.reset();
        CHECK(freed == page);
    }
    CHECK(world.device->currentAllocatedSize() == before);
}

TEST_CASE("buffer: private storage hides its contents, managed storage takes notice of changes") {
    World world;
    const auto hidden = NS::TransferPtr(world.device->newBuffer(16, MTL::ResourceStorageModePrivate));
    CHECK(hidden->contents() == nullptr);
    CHECK(hidden->storageMode() == MTL::StorageModePrivate);
    const auto managed = NS::TransferPtr(world.device->newBuffer(16, MTL::ResourceStorageModeManaged));
    managed->didModifyRange(NS::Range(4, 12));
    CHECK(managed->hazardTrackingMode() == MTL::HazardTrackingModeTracked);
}

TEST_CASE("buffer: memory that cannot be had gives nil") {
    World world;
    CHECK(world.device->newBuffer((1 << 20) + 1, MTL::ResourceStorageModeShared) == nullptr);
    CHECK(world.device->newBuffer(std::numeric_limits<size_t>::max(), MTL::ResourceStorageModeShared) ==
          nullptr);
}

TEST_CASE("library: macros, names, and errors of the compiler") {
    World world;
    const auto options = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
    const NS::Object *values[] = {string("1"), NS::Number::number(2)},
                     *names[] = {string("ONE"), string("TWO")};
    options->setPreprocessorMacros(NS::Dictionary::dictionary(values, names, 2));
    options->setFastMathEnabled(false);
    CHECK(options->mathMode() == MTL::MathModeSafe);
    NS::Error *error = nullptr;
    const auto library = NS::TransferPtr(world.device->newLibrary(string("x"), options.get(), &error));
    REQUIRE(library);
    CHECK(world.driver->macros == std::map<std::string, std::string>{{"ONE", "1"}, {"TWO", "2"}});
    CHECK(library->functionNames()->count() == fake_functions().size());
    CHECK(text(library->functionNames()->object<NS::String>(0)) == "scale");

    CHECK(world.device->newLibrary(string("#error"), (MTL::CompileOptions *)nullptr, &error) == nullptr);
    CHECK(text(error->localizedDescription()) == "program_source:1:2: error: as asked");
    CHECK(error->code() == MTL::LibraryErrorCompileFailure);
    CHECK(library->newFunction(string("missing")) == nullptr);
}

namespace {

NS::SharedPtr<MTL::FunctionConstantValues> shift_values(bool biased, float shift) {
    auto values = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
    const uint32_t n = 3;
    values->setConstantValue(&biased, MTL::DataTypeBool, NS::UInteger(7));
    values->setConstantValue(&shift, MTL::DataTypeFloat, string("shift"));
    values->setConstantValues(&n, MTL::DataTypeUInt, NS::Range(9, 1));
    return values;
}

std::string constant_error(const World &world, MTL::FunctionConstantValues *values) {
    NS::Error *error = nullptr;
    CHECK(world.library->newFunction(string("shift"), values, &error) == nullptr);
    return error ? text(error->localizedDescription()) : "";
}

}  // namespace

TEST_CASE("function: constants are described, checked and used") {
    World world;
    const auto plain = NS::TransferPtr(world.library->newFunction(string("shift")));
    CHECK(text(plain->name()) == "shift");
    CHECK(plain->functionType() == MTL::FunctionTypeKernel);
    auto *const constants = plain->functionConstantsDictionary();
    REQUIRE(constants->count() == 3);
    const auto *const shift = constants->object<MTL::FunctionConstant>(string("shift"));
    CHECK(shift->index() == 8);
    CHECK(shift->type() == MTL::DataTypeFloat);
    CHECK(shift->required());

    auto values = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
    CHECK(constant_error(world, values.get()).find("biased (index 7) has no value") != std::string::npos);
    values = shift_values(true, 1.0f);
    const uint32_t wrong = 1;
    values->setConstantValue(&wrong, MTL::DataTypeUInt, NS::UInteger(7));
    CHECK(constant_error(world, values.get()).find("biased (index 7) was set with MTL::DataType 33") !=
          std::string::npos);

    NS::Error *error = nullptr;
    CHECK(world.device->newComputePipelineState(plain.get(), &error) == nullptr);
    CHECK(text(error->localizedDescription()).find("it has function constants") != std::string::npos);

    for (const bool biased : {false, true}) {
        const auto function = NS::TransferPtr(
            world.library->newFunction(string("shift"), shift_values(biased, 2.0f).get(), &error));
        REQUIRE(function);
        const auto pipeline = NS::TransferPtr(world.device->newComputePipelineState(function.get(), &error));
        CHECK(pipeline->reflection()->bindings()->count() ==
              (biased ? 2 : 1));  // `bias` exists only if biased
        auto *const commands = world.queue->commandBuffer();
        auto *const encoder = commands->computeCommandEncoder();
        encoder->setComputePipelineState(pipeline.get());
        encoder->setBuffer(world.y.get(), 0, 0);
        floats(world.x)[2] = 0.5f;
        if (biased) encoder->setBuffer(world.x.get(), 0, 1);
        encoder->dispatchThreads(MTL::Size(3, 1, 1), MTL::Size(3, 1, 1));
        encoder->endEncoding();
        commands->commit();
        commands->waitUntilCompleted();
        CHECK(floats(world.y)[2] == (biased ? 2.5f : 2.0f));
    }
}

TEST_CASE("pipeline: descriptor, limits, reflection, errors") {
    World world;
    const auto descriptor = NS::TransferPtr(MTL::ComputePipelineDescriptor::alloc()->init());
    const auto function = NS::TransferPtr(world.library->newFunction(string("scale")));
    descriptor->setComputeFunction(function.get());
    descriptor->setLabel(string("a scale"));
    descriptor->setMaxTotalThreadsPerThreadgroup(64);
    MTL::ComputePipelineReflection *reflection = nullptr;
    NS::Error *error = nullptr;
    const auto pipeline = NS::TransferPtr(world.device->newComputePipelineState(
        descriptor.get(), MTL::PipelineOptionBindingInfo, &reflection, &error));
    REQUIRE(pipeline);
    CHECK(text(pipeline->label()) == "a scale");
    CHECK(pipeline->maxTotalThreadsPerThreadgroup() == 64);
    CHECK(pipeline->threadExecutionWidth() == 32);
    CHECK(pipeline->staticThreadgroupMemoryLength() == 256);
    CHECK(world.scale->maxTotalThreadsPerThreadgroup() == 128);
    CHECK(world.scale->label() == nullptr);
    REQUIRE(reflection->bindings()->count() == 3);
    const auto *const x = reflection->bindings()->object<MTL::BufferBinding>(0);
    const auto *const args = reflection->bindings()->object<MTL::BufferBinding>(2);
    CHECK(text(x->name()) == "x");
    CHECK(x->access() == MTL::BindingAccessReadOnly);
    CHECK(reflection->bindings()->object<MTL::BufferBinding>(1)->access() == MTL::BindingAccessWriteOnly);
    CHECK(args->index() == 2);
    CHECK(args->bufferDataSize() == sizeof(ScaleArgs));
    CHECK(args->bufferAlignment() == 4);

    descriptor->setMaxTotalThreadsPerThreadgroup(129);
    CHECK(world.device->newComputePipelineState(descriptor.get(), MTL::PipelineOptionNone, nullptr, &error) ==
          nullptr);
    CHECK(text(error->localizedDescription()).find("at most 128") != std::string::npos);
    CHECK(!world.pipeline("greedy"));
    CHECK(!world.pipeline("refused"));
}

TEST_CASE("descriptors: copies are independent") {
    World world;
    const auto first = NS::TransferPtr(MTL::ComputePipelineDescriptor::alloc()->init());
    first->setLabel(string("one"));
    const auto second = NS::TransferPtr(first->copy());
    second->setLabel(string("two"));
    CHECK(text(first->label()) == "one");
    auto *const pass = MTL::ComputePassDescriptor::computePassDescriptor();
    pass->setDispatchType(MTL::DispatchTypeConcurrent);
    auto *const commands = world.queue->commandBuffer();
    auto *const encoder = commands->computeCommandEncoder(pass);
    CHECK(encoder->dispatchType() == MTL::DispatchTypeConcurrent);
    CHECK(encoder->device() == world.device.get());
    encoder->endEncoding();
}

TEST_CASE("compute: bindings, offsets, bytes, arrays of buffers") {
    World world;
    for (int i = 0; i < 16; ++i) floats(world.x)[i] = float(i);
    auto *const commands = world.queue->commandBuffer();
    CHECK(commands->retainedReferences());
    auto *const encoder = commands->computeCommandEncoder();
    world.encode_scale(encoder, world.x, world.y, 10);
    encoder->setBufferOffset(16, 1);  // everything else stays bound
    encoder->setBufferOffset(32, 0);
    encoder->dispatchThreads(MTL::Size(4, 1, 1), MTL::Size(2, 1, 1));
    const MTL::Buffer *const buffers[] = {world.y.get(), world.z.get()};
    const NS::UInteger offsets[] = {16, 4};
    encoder->setBuffers(buffers, offsets, NS::Range(0, 2));
    const auto half =
        NS::TransferPtr(world.device->newBuffer(sizeof(ScaleArgs), MTL::ResourceStorageModeShared));
    *static_cast<ScaleArgs *>(half->contents()) = {4, 0.5f};
    encoder->setBuffer(half.get(), 0, 2);
    encoder->useResource(half.get(), MTL::ResourceUsageRead);
    encoder->setThreadgroupMemoryLength(64, 0);
    encoder->pushDebugGroup(string("group"));
    encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(4, 1, 1));
    encoder->popDebugGroup();
    encoder->endEncoding();
    commands->commit();
    commands->waitUntilCompleted();
    CHECK(commands->status() == MTL::CommandBufferStatusCompleted);
    CHECK(floats(world.y)[3] == 30.0f);
    CHECK(floats(world.y)[4] == 80.0f);
    CHECK(floats(world.z)[0] == 0.0f);
    CHECK(floats(world.z)[1] == 40.0f);

    REQUIRE(world.driver->seen.size() == 3);
    const auto &second = std::get<Dispatch>(world.driver->seen[1]);
    CHECK(second.groups == Size3{2, 1, 1});
    CHECK(second.grid == Size3{4, 1, 1});
    CHECK(second.phase != std::get<Dispatch>(world.driver->seen[0]).phase);
}

TEST_CASE("blit: copies and fills, in order with compute") {
    World world;
    floats(world.x)[0] = 3;
    auto *const commands = world.queue->commandBuffer();
    auto *const blit = commands->blitCommandEncoder();
    blit->setLabel(string("blit"));
    blit->copyFromBuffer(world.x.get(), 0, world.x.get(), 12, 4);
    blit->copyFromBuffer(world.x.get(), 12, world.y.get(), 4, 4);
    blit->fillBuffer(world.y.get(), NS::Range(8, 4), 0x3f);
    blit->endEncoding();
    auto *const encoder = commands->computeCommandEncoder();
    world.encode_scale(encoder, world.y, world.z, 2);
    encoder->endEncoding();
    commands->commit();
    commands->waitUntilCompleted();
    CHECK(floats(world.z)[1] == 6.0f);
    CHECK(static_cast<uint8_t *>(world.y->contents())[11] == 0x3f);
    CHECK(static_cast<uint8_t *>(world.y->contents())[12] == 0);
}

TEST_CASE("recording: what was encoded, and nothing executed") {
    World world;
    Recording recording(world.device.get(), MTL::DispatchTypeConcurrent);
    auto *const encoder = recording.encoder();
    CHECK(encoder->dispatchType() == MTL::DispatchTypeConcurrent);
    CHECK(encoder->device() == world.device.get());
    world.encode_scale(encoder, world.x, world.y, 2, 8);
    encoder->memoryBarrier(MTL::BarrierScopeBuffers);
    encoder->setBufferOffset(12, 0);
    encoder->dispatchThreads(MTL::Size(5, 1, 1), MTL::Size(5, 1, 1));
    encoder->endEncoding();
    CHECK(recording.ended());
    REQUIRE(recording.commands().size() == 3);
    const ScaleArgs args{4, 2};
    const auto *const bytes = reinterpret_cast<const std::byte *>(&args);
    const RecordedCommand expected{
        RecordedCommand::Kind::dispatch_groups,
        "",
        {{0, "x", 8, {}}, {1, "y", 0, {}}, {2, "", 0, {bytes, bytes + sizeof args}}},
        {1, 1, 1},
        {4, 1, 1}};
    CHECK(recording.commands()[0] == expected);
    CHECK(recording.commands()[1].kind == RecordedCommand::Kind::barrier);
    CHECK(recording.commands()[2].kind == RecordedCommand::Kind::dispatch_threads);
    CHECK(recording.commands()[2].bindings == std::vector<RecordedBinding>{{0, "x", 12, {}}});
    CHECK(world.driver->seen.empty());
    CHECK(refusal([&] { encoder->endEncoding(); }).misuse == Misuse::encoder_ended);
}
