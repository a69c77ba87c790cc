// The blit command encoder: copies and fills of buffers.
#include "metal_runtime/device/encoder.h"

namespace qwisp::metal {
namespace {

constexpr size_t kBlitMultiple = 4;  // macOS: offsets and lengths of buffer blits

class BlitEncoder final : public Encoder {
  public:
    explicit BlitEncoder(MTL::CommandBuffer *buffer)
        : Encoder(buffer, "blit encoder", "blitCommandEncoder") {}

    void copy(const MTL::Buffer *from, size_t from_offset, const MTL::Buffer *to, size_t to_offset,
              size_t length) {
        check_open("copyFromBuffer");
        const Allocation &source = use(from, "copyFromBuffer", "the source");
        const Allocation &target = use(to, "copyFromBuffer", "the destination");
        check_range("copyFromBuffer", source, from_offset, length);
        check_range("copyFromBuffer", target, to_offset, length);
        if (&source == &target && from_offset < to_offset + length && to_offset < from_offset + length) {
            misuse(Misuse::blit_overlap, "copyFromBuffer: " + std::to_string(length) + " bytes from offset " +
                                             std::to_string(from_offset) + " and " +
                                             std::to_string(to_offset) + " on overlap in " + source.name());
        }
        commands_.encode(Copy{source.memory.get(), from_offset, target.memory.get(), to_offset, length});
    }

    void fill(const MTL::Buffer *buffer, NS::Range range, uint8_t value) {
        check_open("fillBuffer");
        const Allocation &target = use(buffer, "fillBuffer", "the buffer");
        check_range("fillBuffer", target, range.location, range.length);
        commands_.encode(Fill{target.memory.get(), range.location, range.length, value});
    }

    void synchronize(const MTL::Resource *resource) {
        check_open("synchronizeResource");
        const Allocation &target =
            use(static_cast<const MTL::Buffer *>(resource), "synchronizeResource", "the resource");
        if (target.storage() != MTL::StorageModeManaged) {
            misuse(Misuse::modified_range,
                   "synchronizeResource: only for managed storage, not for " + target.name());
        }
    }

    void end_encoding() { end(); }

  private:
    void check_range(const char *call, const Allocation &allocation, size_t offset, size_t length) {
        const std::string range = std::string(call) + ": " + std::to_string(length) + " bytes from offset " +
                                  std::to_string(offset) + " on";
        if (length == 0 || offset > allocation.length || length > allocation.length - offset) {
            misuse(Misuse::blit_range, range + " are not in " + allocation.name());
        }
        if (offset % kBlitMultiple != 0 || length % kBlitMultiple != 0) {
            misuse(Misuse::blit_alignment, range + ", but macOS demands multiples of 4");
        }
    }
};

const objc::PayloadClass<BlitEncoder> &blit_encoder_class() {
    using E = BlitEncoder;
    static const auto cls = [] {
        objc::PayloadClass<E> made("QwispBlitCommandEncoder");
        add_encoder_methods(made);
        made.method("copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:",
                    [](E &self, MTL::Buffer *from, NS::UInteger from_offset, MTL::Buffer *to,
                       NS::UInteger to_offset,
                       NS::UInteger length) { self.copy(from, from_offset, to, to_offset, length); })
            .method("fillBuffer:range:value:", [](E &self, MTL::Buffer *buffer, NS::Range range,
                                                  uint8_t value) { self.fill(buffer, range, value); })
            .method("synchronizeResource:",
                    [](E &self, MTL::Resource *resource) { self.synchronize(resource); });
        return made.registered();
    }();
    return cls;
}

}  // namespace

MTL::BlitCommandEncoder *new_blit_encoder(MTL::CommandBuffer *buffer) {
    return blit_encoder_class().create<MTL::BlitCommandEncoder>(buffer);
}

}  // namespace qwisp::metal
