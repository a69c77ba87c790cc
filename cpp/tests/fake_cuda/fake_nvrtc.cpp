// "Machine code" is the name of the one kernel that the options make an entry.
#include <cstring>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Program {
    std::string text, code, log;
};
constexpr int kCompilation = 6;

}  // namespace

EXPORT int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return 0;
}
EXPORT const char *nvrtcGetErrorString(int result) {
    return result == kCompilation ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}
EXPORT int nvrtcCreateProgram(Program **program, const char *text, const char *, int, const char *const *,
                              const char *const *) {
    *program = new Program{text, {}, {}};
    return 0;
}
EXPORT int nvrtcDestroyProgram(Program **program) {
    delete *program;
    *program = nullptr;
    return 0;
}
EXPORT int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    if (program->text.find("#error") != std::string::npos) {
        program->log = "route.metal(1): error: as asked";
        return kCompilation;
    }
    const std::string prefix = "-DQWISP_ENTRY_", entry = "=extern \"C\" __global__";
    for (int i = 0; i < count; ++i) {
        const std::string option = options[i];
        if (option.starts_with(prefix) && option.ends_with(entry))
            program->code = option.substr(prefix.size(), option.size() - prefix.size() - entry.size());
    }
    return program->code.empty() ? kCompilation : 0;
}
EXPORT int nvrtcGetProgramLogSize(Program *program, size_t *size) {
    *size = program->log.size() + 1;
    return 0;
}
EXPORT int nvrtcGetProgramLog(Program *program, char *log) {
    std::memcpy(log, program->log.c_str(), program->log.size() + 1);
    return 0;
}
EXPORT int nvrtcGetCUBINSize(Program *program, size_t *size) {
    *size = program->code.size() + 1;
    return 0;
}
EXPORT int nvrtcGetCUBIN(Program *program, char *code) {
    std::memcpy(code, program->code.c_str(), program->code.size() + 1);
    return 0;
}
