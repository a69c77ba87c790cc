// What barriers and fences make known.
#include <algorithm>

#include "weak_memory.h"

namespace qwisp::simt {

void WeakMemory::Clock::join(const Clock &other) {
    const auto join_one = [](auto &into, const auto &from) {
        for (const auto &[key, count] : from) into[key] = std::max(into[key], count);
    };
    join_one(groups, other.groups);
    join_one(threads, other.threads);
}

void WeakMemory::Published::join(const Published &other) {
    clock.join(other.clock);
    time = std::max(time, other.time);
}

bool WeakMemory::ordered_by_fences(const Record &earlier, const Party &who) const {
    for (const Id id : {id_of(who.group, who.now.thread), id_of(who.group, kWhole)}) {
        const auto found = knowledge_.find(id);
        if (found == knowledge_.end()) continue;
        const Clock &clock = found->second.known.clock;
        const auto group = clock.groups.find(earlier.who.group);
        if (group != clock.groups.end() && earlier.who.now.barriers < group->second) return true;
        const auto thread = clock.threads.find(id_of(earlier.who.group, earlier.who.now.thread));
        if (thread != clock.threads.end() && earlier.fences < thread->second) return true;
    }
    return false;
}

void WeakMemory::learn(const Party &who, const Message &message) {
    if (message.publication) knowledge_[id_of(who.group, who.now.thread)].read.join(*message.publication);
}

WeakMemory::Publication WeakMemory::published_by(const Party &who) const {
    const auto found = knowledge_.find(id_of(who.group, who.now.thread));
    return found == knowledge_.end() ? nullptr : found->second.published;
}

void WeakMemory::barrier(uint64_t group) {
    const Id whole = id_of(group, kWhole);
    for (Held &held : held_) {
        if (group_of(held.owner) == group) held.owner = whole;
    }
    if (const auto found = touched_.find(group); found != touched_.end()) {
        const std::vector<Word *> words = std::move(found->second);
        touched_.erase(found);
        for (Word *word : words) {
            size_t oldest = 0;
            std::erase_if(word->views, [&](const View &view) {
                if (group_of(view.who) != group) return false;
                oldest = std::max(oldest, view.oldest);
                return true;
            });
            word->views.push_back({whole, oldest});
        }
    }
    if (knowledge_.empty()) return;
    Published all;
    for (auto &[id, knowledge] : knowledge_) {
        if (group_of(id) == group) all.join(knowledge.known);
    }
    knowledge_[whole].known = std::move(all);
}

void WeakMemory::fence(const Party &who, bool acquire, bool release) {
    const Id id = id_of(who.group, who.now.thread);
    Knowledge &self = knowledge_[id];
    if (acquire) {
        self.known.join(self.read);
        self.read = {};
    }
    if (!release) return;
    for (size_t i = 0; i < held_.size();) {
        if (sees(held_[i], who)) {
            commit(i);
        } else {
            i++;
        }
    }
    auto published = std::make_shared<Published>(self.known);
    if (const auto whole = knowledge_.find(id_of(who.group, kWhole)); whole != knowledge_.end())
        published->join(whole->second.known);
    published->clock.groups[who.group] = who.now.barriers;
    published->clock.threads[id] = ++self.fences;
    published->time = ++time_;
    self.published = std::move(published);
}

}  // namespace qwisp::simt
