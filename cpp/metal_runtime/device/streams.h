// Streams of the hardware's own interface, for callers that have work of their own on them: commands go onto
// a caller's stream instead of through a queue. A driver has this where its hardware has streams.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "metal_runtime/device/driver.h"

namespace qwisp::metal {

using Stream = uint64_t;  // a handle of that interface; the caller answers for its being one

// A point in a stream.
class Mark {
  public:
    virtual ~Mark() = default;
    virtual bool passed() = 0;  // also once the device is lost
    virtual void wait() = 0;    // blocks until then
};

struct StreamState {
    uint64_t id = 0;         // of no other stream that there ever was; while capturing, of the capture
    bool capturing = false;  // its work is being recorded into a graph, not run
};

// All but wrap() return an empty string, or what failed. Only finish(), finish_all() and Mark::wait() block.
// While a stream is capturing, nothing here touches another one but by the caller's wish.
class Streams {
  public:
    virtual ~Streams() = default;
    // Memory of the device that somebody else keeps alive.
    virtual std::unique_ptr<Memory> wrap(uint64_t address, size_t length) = 0;
    virtual std::string inspect(Stream stream, StreamState *state) = 0;
    // The caller keeps alive what the commands use until the stream has passed them.
    virtual std::string submit(const std::vector<Command> &commands, Stream stream) = 0;
    virtual std::string mark(Stream stream, std::unique_ptr<Mark> *mark) = 0;
    // What is put on the stream from now on waits for the mark.
    virtual std::string wait(Stream stream, Mark &mark) = 0;
    virtual std::string finish(Stream stream) = 0;
    virtual std::string finish_all() = 0;
};

}  // namespace qwisp::metal
