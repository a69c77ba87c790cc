// macOS only (not yet run there): Metal's own MTLFunctionConstantValues has no getters, so its setters are
// wrapped to keep a copy of the values beside the object, for the software device to read.
#if defined(__APPLE__)

#include <objc/runtime.h>

#include "metal_runtime/device/library.h"

namespace qwisp::metal {
namespace {

const objc::PayloadClass<StoredConstants> &record_class() {
    static const auto cls = objc::PayloadClass<StoredConstants>("QwispStoredConstants").registered();
    return cls;
}

const char kRecordKey = 0;
IMP set_by_index, set_by_range, set_by_name, reset_all;

StoredConstants &record_of(id self) {
    id record = objc_getAssociatedObject(self, &kRecordKey);
    if (!record) {
        record = reinterpret_cast<id>(record_class().create<NS::Object>());
        objc_setAssociatedObject(self, &kRecordKey, record, OBJC_ASSOCIATION_RETAIN);
        reinterpret_cast<NS::Object *>(record)->release();
    }
    return objc::payload<StoredConstants>(record);
}

void record_by_index(id self, SEL name, const void *value, MTL::DataType type, NS::UInteger index) {
    record_of(self).set(value, type, NS::Range(index, 1));
    reinterpret_cast<decltype(&record_by_index)>(set_by_index)(self, name, value, type, index);
}
void record_by_range(id self, SEL name, const void *values, MTL::DataType type, NS::Range range) {
    record_of(self).set(values, type, range);
    reinterpret_cast<decltype(&record_by_range)>(set_by_range)(self, name, values, type, range);
}
void record_by_name(id self, SEL name, const void *value, MTL::DataType type, NS::String *constant) {
    record_of(self).set(value, type, constant);
    reinterpret_cast<decltype(&record_by_name)>(set_by_name)(self, name, value, type, constant);
}
void record_reset(id self, SEL name) {
    record_of(self) = {};
    reinterpret_cast<decltype(&record_reset)>(reset_all)(self, name);
}

template <class F>
IMP wrap(Class cls, const char *selector, F *function) {
    const Method method = class_getInstanceMethod(cls, sel_registerName(selector));
    return method_setImplementation(method, reinterpret_cast<IMP>(function));
}

}  // namespace

const StoredConstants *stored_constants(const MTL::FunctionConstantValues *values) {
    return record_class().find(objc_getAssociatedObject(
        reinterpret_cast<id>(const_cast<MTL::FunctionConstantValues *>(values)), &kRecordKey));
}

}  // namespace qwisp::metal

// The first software device calls it; values stored before that are not seen.
extern "C" void qwisp_define_metal_classes() {
    using namespace qwisp::metal;
    static const bool once = [] {
        const auto sample = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
        const Class cls = object_getClass(reinterpret_cast<id>(sample.get()));
        set_by_index = wrap(cls, "setConstantValue:type:atIndex:", record_by_index);
        set_by_range = wrap(cls, "setConstantValues:type:withRange:", record_by_range);
        set_by_name = wrap(cls, "setConstantValue:type:withName:", record_by_name);
        reset_all = wrap(cls, "reset", record_reset);
        return true;
    }();
    (void)once;
}

#endif
