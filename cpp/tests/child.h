// Forked children of a test.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#if defined(__has_feature)
#define QWISP_SANITIZED (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define QWISP_SANITIZED 1
#else
#define QWISP_SANITIZED 0
#endif

namespace qwisp::test {

constexpr unsigned kPatience = 30;  // seconds until a hanging child is killed

// What became of a child that runs `body` and exits with its result.
inline std::string in_child(const std::function<int()> &body) {
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(kPatience);
        _exit(body());
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
    return "exit " + std::to_string(WEXITSTATUS(status));
}

}  // namespace qwisp::test
