#include "weak_memory.h"

#include <algorithm>
#include <cstring>

namespace qwisp::simt {

namespace {

constexpr size_t kWord = 4;
constexpr size_t kHistory = 16;    // messages that a word keeps
constexpr uint32_t kPatience = 8;  // loads that find one value again before the newest one is due

uint32_t *at(uintptr_t address) { return reinterpret_cast<uint32_t *>(address); }

}  // namespace

// Races.

std::optional<DeviceConflict> WeakMemory::check(Word &word, const Record &record) {
    const Party &who = record.who;
    const auto overlaps = [&](const Record &r) { return (r.bytes & record.bytes) != 0; };
    const auto same_thread = [&](const Record &r) {
        return r.who.group == who.group && r.who.now.thread == who.now.thread;
    };
    for (const Record &r : word.records) {
        if (!overlaps(r) || same_thread(r) || !(r.writes || record.writes) || (r.atomic && record.atomic)) {
            continue;
        }
        if (r.who.group == who.group && ordered(r.who.now, who.now)) continue;
        if (ordered_by_fences(r, who)) continue;
        return DeviceConflict{r.who, r.writes, r.atomic};
    }
    // What conflicts with one of these conflicts with the new one as well.
    std::erase_if(word.records, [&](const Record &r) {
        if ((r.bytes & ~record.bytes) != 0) return false;
        if (record.writes && !record.atomic) return true;
        return same_thread(r) && r.writes <= record.writes && r.atomic >= record.atomic;
    });
    word.records.push_back(record);
    return {};
}

std::optional<DeviceConflict> WeakMemory::plain(const Party &who, uintptr_t address, size_t size,
                                                bool writes) {
    const auto self = knowledge_.find(id_of(who.group, who.now.thread));
    for (uintptr_t first = address & ~(kWord - 1); first < address + size; first += kWord) {
        uint8_t bytes = 0;
        for (size_t b = 0; b < kWord; b++) {
            if (first + b >= address && first + b < address + size) bytes |= static_cast<uint8_t>(1u << b);
        }
        Word &word = words_[first];
        const uint32_t fences = self == knowledge_.end() ? 0 : self->second.fences;
        if (auto conflict = check(word, {who, fences, bytes, writes, false})) return conflict;
        commit_seen(word, who);
    }
    return {};
}

void WeakMemory::written(uintptr_t address, size_t size) {
    for (uintptr_t first = address & ~(kWord - 1); first < address + size; first += kWord) {
        Word &word = words_[first];
        if (word.messages.empty()) continue;
        word.messages = {{*at(first), ++time_, nullptr}};  // everybody else is ordered before or after
        word.views.clear();
    }
}

// Atomic words.

void WeakMemory::begin_history(Word &word, uintptr_t address) {
    if (word.messages.empty()) word.messages.push_back({*at(address), 0, nullptr});
}

WeakMemory::View &WeakMemory::view(Word &word, Id who) {
    for (View &view : word.views) {
        if (view.who == who) return view;
    }
    touched_[group_of(who)].push_back(&word);
    return word.views.emplace_back(View{who, 0});
}

size_t WeakMemory::oldest_for(const Word &word, const Party &who) const {
    const Id thread = id_of(who.group, who.now.thread), whole = id_of(who.group, kWhole);
    size_t oldest = 0;
    for (const View &view : word.views) {
        if (view.who == thread || view.who == whole) oldest = std::max(oldest, view.oldest);
    }
    uint64_t time = 0;
    for (const Id id : {thread, whole}) {
        if (const auto found = knowledge_.find(id); found != knowledge_.end())
            time = std::max(time, found->second.known.time);
    }
    while (oldest + 1 < word.messages.size() && word.messages[oldest + 1].time <= time) oldest++;
    return oldest;
}

bool WeakMemory::sees(const Held &held, const Party &who) const {
    return held.owner == id_of(who.group, who.now.thread) || held.owner == id_of(who.group, kWhole);
}

const WeakMemory::Held *WeakMemory::last_held(const Word &word, const Party &who) const {
    if (word.held == 0) return nullptr;
    const auto found = std::find_if(held_.rbegin(), held_.rend(),
                                    [&](const Held &held) { return held.word == &word && sees(held, who); });
    return found == held_.rend() ? nullptr : &*found;
}

void WeakMemory::commit(size_t i) {
    Held held = std::move(held_[i]);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
    held.word->held--;
    append(*held.word, held.address, held.owner, held.value, std::move(held.publication));
}

void WeakMemory::commit_seen(Word &word, const Party &who) {
    for (size_t i = 0; word.held > 0 && i < held_.size();) {
        if (held_[i].word == &word && sees(held_[i], who)) {
            commit(i);
        } else {
            i++;
        }
    }
}

void WeakMemory::append(Word &word, uintptr_t address, Id owner, uint32_t value, Publication publication) {
    word.messages.push_back({value, ++time_, std::move(publication)});
    apply(AtomicOp::store, at(address), value);
    if (word.messages.size() > kHistory) {
        word.messages.erase(word.messages.begin());
        for (View &view : word.views) view.oldest -= view.oldest > 0;
    }
    View &own = view(word, owner);
    own.oldest = word.messages.size() - 1;
    own.repeats = 0;
}

uint32_t WeakMemory::load(Word &word, const Party &who) {
    const Id id = id_of(who.group, who.now.thread);
    if (view(word, id).repeats >= kPatience) {
        for (size_t i = 0; word.held > 0;) held_[i].word == &word ? commit(i) : void(i++);
    } else if (const Held *own = last_held(word, who)) {
        view(word, id).repeats++;
        return own->value;
    }
    const size_t oldest = oldest_for(word, who), newest = word.messages.size() - 1;
    View &self = view(word, id);
    const bool waits = self.repeats >= kPatience;
    const auto back = waits ? 0 : choices_.of(Choice::stale, static_cast<uint32_t>(newest - oldest + 1));
    const size_t found = newest - back;
    self.repeats = found == self.oldest && !waits ? self.repeats + 1 : 0;
    self.oldest = found;
    learn(who, word.messages[found]);
    return word.messages[found].value;
}

std::optional<DeviceConflict> WeakMemory::atomic(const Party &who, uintptr_t address, AtomicOp op,
                                                 uint32_t operand, uint32_t *before) {
    Word &word = words_[address];
    const Id id = id_of(who.group, who.now.thread);
    const auto self = knowledge_.find(id);
    const uint32_t fences = self == knowledge_.end() ? 0 : self->second.fences;
    if (auto conflict = check(word, {who, fences, 0xf, op != AtomicOp::load, true})) return conflict;
    begin_history(word, address);
    *before = 0;
    if (op == AtomicOp::load) {
        *before = load(word, who);
        return {};
    }
    commit_seen(word, who);  // a thread's own accesses to one word stay in order
    if (op == AtomicOp::store) {
        if (choices_.of(Choice::hold, 2) == 1) {
            view(word, id);
            held_.push_back({address, &word, id, operand, published_by(who)});
            word.held++;
        } else {
            append(word, address, id, operand, published_by(who));
        }
        return {};
    }
    // Reads the newest value and is the next one: nothing comes between.
    const Message &newest = word.messages.back();
    learn(who, newest);
    uint32_t value = *before = newest.value;
    apply(op, &value, operand);
    Publication publication = newest.publication;  // a release sequence goes on through it
    if (const Publication own = published_by(who)) {
        auto both = std::make_shared<Published>(*own);
        if (publication) both->join(*publication);
        publication = std::move(both);
    }
    append(word, address, id, value, std::move(publication));
    return {};
}

void WeakMemory::settle() {
    if (held_.empty() || choices_.of(Choice::settle, 2) == 0) return;
    commit(choices_.of(Choice::which, static_cast<uint32_t>(held_.size())));
}

void WeakMemory::finish() {
    while (!held_.empty()) commit(choices_.of(Choice::which, static_cast<uint32_t>(held_.size())));
}

}  // namespace qwisp::simt
