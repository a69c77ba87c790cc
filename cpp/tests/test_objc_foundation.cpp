// The Foundation classes, through metal-cpp only. Expected values are macOS's.
#include <doctest/doctest.h>
#include <Foundation/Foundation.hpp>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

struct Pool {
    NS::AutoreleasePool *pool = NS::AutoreleasePool::alloc()->init();
    ~Pool() { pool->release(); }
};

NS::String *text(const char *utf8) { return NS::String::string(utf8, NS::UTF8StringEncoding); }
std::string utf8(const NS::String *string) { return string ? string->utf8String() : "(null)"; }

}  // namespace

TEST_CASE("NSString: UTF-8 inside, UTF-16 units outside") {
    const Pool pool;
    const NS::String *string = text("a\u00e9\u20ac\U0001d11e");
    CHECK(utf8(string) == "a\u00e9\u20ac\U0001d11e");
    CHECK(string->length() == 5);
    CHECK(string->lengthOfBytes(NS::UTF8StringEncoding) == 10);
    CHECK(string->maximumLengthOfBytes(NS::UTF8StringEncoding) == 15);
    CHECK(string->character(1) == 0xe9);
    CHECK(string->character(3) == 0xd834);
    CHECK(string->character(4) == 0xdd1e);
    CHECK(string->cString(NS::ASCIIStringEncoding) == nullptr);
    CHECK(std::strcmp(text("plain")->cString(NS::ASCIIStringEncoding), "plain") == 0);
    CHECK(NS::String::string()->length() == 0);
    CHECK(utf8(text("ab")->stringByAppendingString(text("cd"))) == "abcd");
}

TEST_CASE("NSString: bytes that the encoding does not allow give nil") {
    const Pool pool;
    for (const char *bad :
         {"\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "a\x80"}) {
        CHECK(text(bad) == nullptr);
    }
    CHECK(NS::String::string("\u00e9", NS::ASCIIStringEncoding) == nullptr);
}

TEST_CASE("NSString: every initialiser") {
    const Pool pool;
    const auto same = [](NS::String *string) { return utf8(NS::TransferPtr(string).get()); };
    CHECK(same(NS::String::alloc()->init()) == "");
    CHECK(same(NS::String::alloc()->init(text("copy"))) == "copy");
    CHECK(same(NS::String::alloc()->init("c string", NS::UTF8StringEncoding)) == "c string");
    char *bytes = strdup("bytes and more");
    CHECK(same(NS::String::alloc()->init(bytes, 5, NS::UTF8StringEncoding, true)) == "bytes");
    CHECK(utf8(NS::String::string(text("s"))) == "s");
}

TEST_CASE("NSString: comparison and search") {
    const Pool pool;
    CHECK(text("same")->isEqualToString(text("same")));
    CHECK(text("same")->isEqual(MTLSTR("same")));
    NS::String *constant = MTLSTR("same");
    CHECK(text("same")->hash() == constant->hash());
    CHECK_FALSE(text("same")->isEqualToString(text("Same")));
    CHECK_FALSE(text("same")->isEqual(NS::Number::number(1)));
    CHECK(text("Metal")->caseInsensitiveCompare(text("mETAL")) == NS::OrderedSame);
    CHECK(text("a")->caseInsensitiveCompare(text("B")) == NS::OrderedAscending);
    CHECK(text("b")->caseInsensitiveCompare(text("A")) == NS::OrderedDescending);
    const NS::String *in = text("\u20acab ab");
    CHECK(in->rangeOfString(text("ab"), NS::LiteralSearch).location == 1);
    CHECK(in->rangeOfString(text("ab"), NS::BackwardsSearch).location == 4);
    CHECK(in->rangeOfString(text("AB"), NS::CaseInsensitiveSearch).length == 2);
    CHECK(in->rangeOfString(text("ab"), NS::AnchoredSearch).location == NS::UInteger(NS::NotFound));
    CHECK(in->rangeOfString(text("x"), NS::StringCompareOptions(0)).length == 0);
}

TEST_CASE("constant strings are one object each and outlive every release") {
    NS::String *string = MTLSTR("constant");
    CHECK(string == MTLSTR("constant"));
    string->release();
    string->release();
    CHECK(utf8(string) == "constant");
}

TEST_CASE("NSArray and NSEnumerator") {
    const Pool pool;
    const NS::Object *objects[] = {text("a"), text("b"), NS::Number::number(3)};
    NS::Array *array = NS::Array::array(objects, 3);
    CHECK(array->count() == 3);
    CHECK(utf8(array->object<NS::String>(1)) == "b");
    CHECK(array->isEqual(NS::Array::array(objects, 3)));
    CHECK_FALSE(array->isEqual(NS::Array::array(objects, 2)));
    NS::Enumerator<NS::Object> *all = array->objectEnumerator();
    CHECK(all->nextObject() == objects[0]);
    CHECK(all->allObjects()->count() == 2);
    CHECK(all->nextObject() == nullptr);
    CHECK(NS::Array::array()->count() == 0);
    CHECK(NS::Array::array(text("one"))->count() == 1);
    CHECK(NS::TransferPtr(NS::Array::alloc()->init(objects, 2))->count() == 2);
    CHECK(NS::TransferPtr(array->copy()).get() == array);
#if !defined(__APPLE__)
    CHECK_THROWS_AS(array->object(3), std::out_of_range);
    CHECK_THROWS_WITH(array->object(3), "-[NSArray objectAtIndex:]: index 3 of 3");
#endif
}

TEST_CASE("NSDictionary") {
    const Pool pool;
    const NS::Object *keys[] = {text("E"), text("K"), text("E")};
    const NS::Object *objects[] = {text("256"), NS::Number::number(8), text("other")};
    NS::Dictionary *dictionary = NS::Dictionary::dictionary(objects, keys, 2);
    CHECK(dictionary->count() == 2);
    CHECK(utf8(dictionary->object<NS::String>(text("E"))) == "256");
    CHECK(dictionary->object<NS::Number>(MTLSTR("K"))->intValue() == 8);
    CHECK(dictionary->object(text("H")) == nullptr);
    NS::Enumerator<NS::String> *names = dictionary->keyEnumerator<NS::String>();
    size_t seen = 0;
    while (NS::String *name = names->nextObject()) seen += name->length();
    CHECK(seen == 2);
    CHECK(NS::Dictionary::dictionary()->count() == 0);
    CHECK(NS::TransferPtr(NS::Dictionary::alloc()->init(objects, keys, 3))->count() == 2);
    CHECK(dictionary->isEqual(NS::Dictionary::dictionary(objects, keys, 2)));
#if !defined(__APPLE__)
    keys[0] = nullptr;
    CHECK_THROWS_AS(NS::Dictionary::dictionary(objects, keys, 2), std::invalid_argument);
#endif
}

TEST_CASE("NSError") {
    const Pool pool;
    NS::Dictionary *info =
        NS::Dictionary::dictionary(text("the kernel faulted"), NS::LocalizedDescriptionKey);
    NS::Error *error = NS::Error::error(NS::CocoaErrorDomain, -3, info);
    CHECK(error->code() == -3);
    CHECK(utf8(error->domain()) == "NSCocoaErrorDomain");
    CHECK(utf8(error->localizedDescription()) == "the kernel faulted");
    CHECK(error->userInfo()->count() == 1);
    const auto bare = NS::TransferPtr(NS::Error::alloc()->init(text("Domain"), 5, nullptr));
    CHECK(utf8(bare->localizedDescription()) ==
          "The operation couldn\u2019t be completed. (Domain error 5.)");
    CHECK(bare->localizedFailureReason() == nullptr);
}

TEST_CASE("NSNumber") {
    const Pool pool;
    CHECK(NS::Number::number(-5)->longLongValue() == -5);
    CHECK(NS::Number::number(~0ull)->unsignedLongLongValue() == ~0ull);
    CHECK(NS::Number::number(2.75)->intValue() == 2);
    CHECK(NS::Number::number(0.1f)->floatValue() == 0.1f);
    CHECK(NS::Number::number(true)->boolValue());
    CHECK(NS::TransferPtr(NS::Number::alloc()->init(7u))->unsignedIntegerValue() == 7);
    CHECK(NS::Number::number(3)->isEqualToNumber(NS::Number::number(3.0)));
    CHECK(NS::Number::number(3)->hash() == NS::Number::number(3.0)->hash());
    CHECK(NS::Number::number(-1)->compare(NS::Number::number(~0ull)) == NS::OrderedAscending);
    CHECK(NS::Number::number(2)->compare(NS::Number::number(1.5)) == NS::OrderedDescending);
    CHECK(utf8(NS::Number::number(42)->stringValue()) == "42");
    CHECK(std::strcmp(NS::Number::number(1.0)->objCType(), "d") == 0);
    double back = 0;
    NS::Number::number(1.25)->getValue(&back, sizeof back);
    CHECK(back == 1.25);
    CHECK(utf8(NS::Number::number(0.1)->description()) == "0.1");
}

TEST_CASE("NSValue") {
    const Pool pool;
    int there = 3;
    CHECK(NS::Value::value(&there)->pointerValue() == &there);
    NS::Value *value = NS::Value::value(&there, "i");
    int back = 0;
    value->getValue(&back, sizeof back);
    CHECK(back == 3);
    CHECK(value->isEqualToValue(NS::Value::value(&there, "i")));
    CHECK(std::strcmp(value->objCType(), "i") == 0);
}

TEST_CASE("NSURL of a file") {
    const Pool pool;
    CHECK(std::strcmp(NS::URL::fileURLWithPath(text("/tmp/a b"))->fileSystemRepresentation(), "/tmp/a b") ==
          0);
}

TEST_CASE("NSObject") {
    const Pool pool;
    const NS::Object *object = NS::Number::number(1);
    CHECK(object->isEqual(object));
    CHECK_FALSE(object->isEqual(NS::Array::array()));
    CHECK(utf8(object->debugDescription()) == "1");
}
