// The runtime's own threads.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace qwisp::metal {

// Starts `work` on a thread that nobody joins. It receives no signal: those belong to the host's threads.
// Throws std::system_error: no thread to be had.
template <typename Work>
void start_background_thread(Work &&work) {
    struct SignalsBlocked {
        sigset_t before;
        SignalsBlocked() {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, &before);
        }
        ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    };
    const SignalsBlocked blocked;  // a thread inherits its maker's mask
    std::thread(std::forward<Work>(work)).detach();
}

}  // namespace qwisp::metal
