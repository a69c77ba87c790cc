// Plans, limits and the telemetry layout: no device needed. To add a case: one TEST_CASE, or one row of a
// table.
#include <cmath>

#include "route_fixture.h"

using namespace qwisp;
using namespace qwisp::test;

namespace {

RouteRequest request(Fuse fuse, int64_t rows = 3, int64_t top_k = 8) {
    RouteRequest r;
    r.shape = {rows, 2048, 256, top_k};
    r.fuse = fuse;
    return r;
}

uint32_t roomy(Kernel, const FusedConstants &) { return 1024; }

RoutePlan plan(const RouteRequest &r, uint32_t limit = 1024) {
    return plan_route(r, [=](Kernel, const FusedConstants &) { return limit; });
}

// "qmm8_rows(3,32)x64 ...", what a recorder would see.
std::string text(const RoutePlan &plan) {
    std::string out;
    for (const RouteStep &s : plan.steps) {
        if (!out.empty()) out += ' ';
        out += std::string(kernel_name(s.kernel)) + "(" + std::to_string(s.groups.width) + "," +
               std::to_string(s.groups.height) + ")x" + std::to_string(s.threads.width);
        CHECK(s.groups.depth == 1);
        CHECK(s.threads.height == 1);
        CHECK(s.threads.depth == 1);
    }
    return out;
}

template <typename F>
std::string refusal(F f) {
    return message<std::invalid_argument>(f);
}

}  // namespace

TEST_CASE("each variant has its kernels, grid and threads") {
    CHECK(text(plan(request(Fuse::pair))) == "qmm8_rows(3,32)x64 route_top8_rows(3,1)x256");
    CHECK(text(plan(request(Fuse::single))) == "route_fused_rows_single(3,1)x1024");
    CHECK(text(plan(request(Fuse::last))) == "route_fused_rows_last(3,32)x64");
    CHECK(text(plan(request(Fuse::split_pair))) ==
          "qmm8_rows_split(3,128)x256 route_top8_rows_wide(3,1)x256");
    CHECK(text(plan(request(Fuse::split_last))) == "route_fused_rows_split(3,128)x256");
    RouteRequest biased = request(Fuse::pair);
    biased.bias = true;
    CHECK(text(plan(biased)) == "qmm8_rows(3,32)x64 route_top8_rows_bias(3,1)x256");
}

TEST_CASE("fuse: what was asked, what is run, and why") {
    struct Row {
        Fuse fuse;
        int64_t top_k;
        Variant variant;
        const char *reason;
    };
    for (const Row &row :
         {Row{Fuse::off, 8, Variant::pair, "fuse is off"},
          Row{Fuse::pair, 8, Variant::pair, "asked for by name"},
          Row{Fuse::automatic, 8, Variant::pair, "fuse is auto: no measurement for this device"},
          Row{Fuse::on, 8, Variant::last, "fuse is on"}, Row{Fuse::on, 32, Variant::last, "fuse is on"},
          Row{Fuse::on, 33, Variant::pair, "no fused variant for top_k > 32"},
          Row{Fuse::off, 256, Variant::pair, "fuse is off"},
          Row{Fuse::single, 32, Variant::single, "asked for by name"},
          Row{Fuse::last, 1, Variant::last, "asked for by name"},
          Row{Fuse::split_pair, 32, Variant::split_pair, "asked for by name"},
          Row{Fuse::split_last, 1, Variant::split_last, "asked for by name"}}) {
        const RoutePlan p = plan(request(row.fuse, 3, row.top_k));
        CHECK(p.variant == row.variant);
        CHECK(p.reason == row.reason);
    }
    for (Fuse fuse : {Fuse::single, Fuse::last, Fuse::split_pair, Fuse::split_last}) {
        CHECK(mentions(refusal([&] { plan(request(fuse, 3, 33)); }), {"fuse", "top_k > 32", "33"}));
    }
}

TEST_CASE("every combination: kernels, constants and barriers") {
    for (Fuse fuse : {Fuse::off, Fuse::on, Fuse::automatic, Fuse::pair, Fuse::single, Fuse::last})
        for (int flags = 0; flags < 16; ++flags)
            for (int64_t rows : {1, 2, 25})
                for (int64_t top_k : {1, 8, 33}) {
                    if (top_k > 32 && (fuse == Fuse::single || fuse == Fuse::last)) continue;
                    RouteRequest r = request(fuse, rows, top_k);
                    r.bias = flags & 1;
                    r.logits = flags & 2;
                    r.remap = flags & 4;
                    if (flags & 8) r.diag = diag_copy(r.shape, {0, 40, 0, 16});
                    const RoutePlan p = plan(r);

                    const bool fused = p.variant != Variant::pair;
                    const bool copies = r.diag && rows <= 16;
                    REQUIRE(p.steps.size() == (fused ? 1u : 2u) + copies + r.remap);
                    CHECK(p.barriers() == p.steps.size() - 1);
                    const FusedConstants wanted{r.bias, r.logits || r.diag, 2048, 256, uint32_t(top_k)};
                    CHECK(p.steps[0].constants == (fused ? wanted : FusedConstants{}));
                    const size_t after = fused ? 1 : 2;
                    if (copies) CHECK(p.steps[after].kernel == Kernel::diag_copy_route);
                    if (r.remap) CHECK(p.steps.back().kernel == Kernel::slot_remap_rows);
                    const bool says = p.reason.find("diag copies nothing") != std::string::npos;
                    CHECK(says == (r.diag && !copies));
                }
}

TEST_CASE("copies have one thread an element, 256 a threadgroup") {
    RouteRequest r = request(Fuse::off, 1);
    r.diag = diag_copy(r.shape, {0, 1, 0, 1});
    r.remap = true;
    CHECK(text(plan(r)).ends_with("diag_copy_route(1,1)x256 slot_remap_rows(1,1)x256"));
    r.shape.rows = 33;  // 264 ids
    r.diag = diag_copy(r.shape, {0, 1, 0, 64});
    CHECK(text(plan(r)).ends_with("diag_copy_route(2,1)x256 slot_remap_rows(2,1)x256"));
}

TEST_CASE("no rows: nothing to dispatch, whatever is asked") {
    for (Fuse fuse : {Fuse::off, Fuse::on, Fuse::single}) {
        RouteRequest r = request(fuse, 0);
        r.diag = diag_copy(r.shape, {0, 1, 0, 1});
        r.remap = true;
        const RoutePlan p = plan(r);
        CHECK(p.steps.empty());
        CHECK(p.barriers() == 0);
        CHECK(p.reason.find("no rows") != std::string::npos);
    }
}

TEST_CASE("a pipeline's own thread limit is respected") {
    CHECK(text(plan(request(Fuse::single), 1000)) == "route_fused_rows_single(3,1)x992");
    CHECK(text(plan(request(Fuse::single), 32)) == "route_fused_rows_single(3,1)x32");
    RouteRequest small = request(Fuse::single, 1, 4);
    small.shape.experts = 24;
    CHECK(text(plan(small)) == "route_fused_rows_single(1,1)x192");

    const auto refused = [](Fuse fuse, uint32_t limit) {
        return message<DeviceError>([&] { plan(request(fuse), limit); });
    };
    CHECK(mentions(refused(Fuse::pair, 128), {"route_top8_rows", "256", "128"}));
    CHECK(mentions(refused(Fuse::last, 32), {"route_fused_rows_last", "64", "32"}));
    CHECK(mentions(refused(Fuse::single, 31), {"route_fused_rows_single", "32", "31"}));
}

TEST_CASE("limits name the argument, the value and the limit") {
    struct Row {
        RouteShape shape;
        const char *argument, *value, *limit;
    };
    const int64_t big = int64_t{1} << 31;
    for (const Row &row :
         {Row{{1, 2000, 256, 8}, "hidden", "2000", "multiple of 512"},
          Row{{1, 0, 256, 8}, "hidden", "0", "at least 1"},
          Row{{1, -512, 256, 8}, "hidden", "-512", "at least 1"},
          Row{{1, big, 8, 8}, "hidden", "2147483648", "2147483647"},
          Row{{1, 2048, 60, 8}, "experts", "60", "multiple of 8"},
          Row{{1, 2048, 62, 8}, "experts", "62", "multiple of 8"},
          Row{{1, 2048, 264, 8}, "experts", "264", "256"}, Row{{1, 2048, 384, 8}, "experts", "384", "256"},
          Row{{1, 2048, 512, 8}, "experts", "512", "256"}, Row{{1, 2048, 0, 8}, "experts", "0", "at least 1"},
          Row{{1, 2048, 256, 0}, "top_k", "0", "256"}, Row{{1, 2048, 256, -1}, "top_k", "-1", "256"},
          Row{{1, 2048, 256, 257}, "top_k", "257", "256"}, Row{{-1, 2048, 256, 8}, "rows", "-1", "negative"},
          Row{{big, 512, 8, 8}, "rows", "2147483648", "2147483647"},
          Row{{big / 2048, 2048, 256, 8}, "rows * hidden", "2147483648", "2147483647"},
          Row{{big / 256, 512, 256, 8}, "rows * experts", "2147483648", "2147483647"},
          Row{{1, big / 256, 256, 8}, "experts * hidden", "2147483648", "2147483647"}}) {
        RouteRequest r;
        r.shape = row.shape;
        CHECK(mentions(refusal([&] { plan_route(r, roomy); }), {row.argument, row.value, row.limit}));
    }
    for (const RouteShape &shape :
         {RouteShape{1, 512, 8, 8}, RouteShape{1, 2048, 144, 10}, RouteShape{25, 2048, 160, 160},
          RouteShape{(big - 1) / 2048, 2048, 256, 8}}) {
        CHECK_NOTHROW(check_route_shape(shape));
    }
}

TEST_CASE("telemetry layout (CONTRACT section 5)") {
    const RouteShape one{1, 2048, 256, 8}, three{3, 2048, 256, 8};
    const uint64_t place = 16 * 8 * 4;
    CHECK(diag_copy(one, {0, 40, 0, 16}) == DiagCopy{0, 0, place, 512, 8, 256});
    CHECK(diag_copy(one, {7, 40, 0, 16}) == DiagCopy{7 * place, 7 * 512, 8 * place, 8 * 512, 8, 256});
    // Logits only for a single row in chain slot 0.
    CHECK(diag_copy(one, {7, 40, 2, 16}) == DiagCopy{87 * place, 7 * 512, 88 * place, 8 * 512, 8, 0});
    CHECK(diag_copy(three, {7, 40, 2, 16}) == DiagCopy{87 * place, 7 * 512, 88 * place, 8 * 512, 24, 0});
    CHECK(diag_copy(three, {0, 1, 0, 3}).inds_count == 24);
    // More rows than there is room for: none.
    CHECK(diag_copy(three, {0, 1, 0, 2}).inds_count == 0);
    CHECK(diag_copy({0, 2048, 256, 8}, {0, 1, 0, 2}).inds_count == 0);
}

TEST_CASE("telemetry layout: places that cannot be") {
    const RouteShape shape{1, 2048, 256, 8};
    const int64_t huge = INT64_MAX;
    CHECK(mentions(refusal([&] { diag_copy(shape, {40, 40, 0, 1}); }), {"diag.layer", "40"}));
    CHECK(mentions(refusal([&] { diag_copy(shape, {-1, 40, 0, 1}); }), {"diag.layer", "-1"}));
    CHECK(mentions(refusal([&] { diag_copy(shape, {0, 0, 0, 1}); }), {"diag.layers", "0"}));
    CHECK(mentions(refusal([&] { diag_copy(shape, {0, 1, -1, 1}); }), {"diag.slot", "-1"}));
    CHECK(mentions(refusal([&] { diag_copy(shape, {0, 1, 0, 0}); }), {"diag.max_rows", "0"}));
    CHECK(mentions(refusal([&] { diag_copy({1, 2048, 256, huge}, {0, 1, 0, 1}); }), {"top_k"}));
    // No wrap: an offset past 32 bits is exact, one past 64 is refused.
    CHECK(diag_copy(shape, {0, 1 << 20, 1 << 20, 1 << 10}).inds_offset == uint64_t{1} << 55);
    for (const DiagPlace &place :
         {DiagPlace{0, huge, huge, 1}, DiagPlace{0, 1, huge, huge}, DiagPlace{0, 1, 0, huge},
          DiagPlace{huge - 1, huge, 0, 1}, DiagPlace{0, 1 << 30, 1 << 30, 1 << 30}}) {
        CHECK(mentions(refusal([&] { diag_copy(shape, place); }), {"diag", "64 bits"}));
    }
}

TEST_CASE("eps") {
    CHECK(bias_applies(0.5f));
    CHECK_FALSE(bias_applies(0.0f));
    CHECK_FALSE(bias_applies(-1.0f));
    for (float eps : {INFINITY, -INFINITY, NAN}) {
        CHECK(mentions(refusal([&] { bias_applies(eps); }), {"bias.eps", "finite"}));
    }
}
