#include "cli/batch_store.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/samples.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {
namespace {

namespace fs = std::filesystem;

class BatchStoreTest : public testing::Test {
 protected:
  BatchStoreTest() : store_(directory_ / "new") {
    store_.prepare();
    result_.name = "a";
    result_.status = "optimal";
    result_.code = ExitCode::kDone;
    result_.iteration_time_s = 0.1;
  }

  fs::path file(const std::string& name) const { return directory_ / "new" / name; }

  test::TemporaryDirectory directory_;
  BatchStore store_;
  JobResult result_;
};

TEST_F(BatchStoreTest, AFinishedJobIsKnownByItsInputs) {
  EXPECT_FALSE(store_.finished("a", "1"));
  store_.save(result_, "plan", "1", true);
  const auto found = store_.finished("a", "1");
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->reused);
  EXPECT_EQ(found->iteration_time_s, 0.1);
  EXPECT_EQ(found->plan, file("a.plan.json"));
  EXPECT_FALSE(store_.finished("a", "2"));
  EXPECT_FALSE(store_.finished("b", "1"));
}

TEST_F(BatchStoreTest, AStoppedJobIsNotFinished) {
  store_.save(result_, "plan", "1", false);
  EXPECT_EQ(test::content_of(file("a.plan.json")), "plan");
  EXPECT_FALSE(store_.finished("a", "1"));
}

TEST_F(BatchStoreTest, APlanThatChangedOrWentIsMadeAgain) {
  store_.save(result_, "plan", "1", true);
  test::write(file("a.plan.json"), "plam");
  EXPECT_FALSE(store_.finished("a", "1"));
  store_.save(result_, "plan", "1", true);
  fs::remove(file("a.plan.json"));
  EXPECT_FALSE(store_.finished("a", "1"));
}

TEST_F(BatchStoreTest, JobsAreListedWhateverTheirInputs) {
  EXPECT_TRUE(store_.names().empty());
  store_.save(result_, "plan", "1", true);
  result_.name = "B";
  store_.save(result_, "plan", "2", false);
  EXPECT_EQ(store_.names(), (std::vector<std::string>{"B", "a"}));
  EXPECT_TRUE(store_.recorded("a"));
  EXPECT_FALSE(store_.recorded("B"));
  EXPECT_THROW(BatchStore(directory_ / "nowhere").names(), IoError);
}

TEST_F(BatchStoreTest, ADamagedNoteIsNone) {
  store_.save(result_, "plan", "1", true);
  const std::string whole = test::content_of(file("a.done.json"));
  for (const std::size_t length : {whole.size() / 2, std::size_t{0}}) {
    test::write(file("a.done.json"), whole.substr(0, length));
    EXPECT_FALSE(store_.finished("a", "1")) << length;
  }
  for (const char* other : {"[]", "{}", "null", R"({"format": "nestplan.batch-job/1"})"}) {
    test::write(file("a.done.json"), other);
    EXPECT_FALSE(store_.finished("a", "1")) << other;
  }
}

TEST_F(BatchStoreTest, NothingIsLeftBehindByPreparing) {
  EXPECT_TRUE(fs::is_empty(directory_ / "new"));
}

TEST_F(BatchStoreTest, AFileInTheWayIsAnError) {
  test::write(directory_ / "file", "");
  EXPECT_THROW(BatchStore(directory_ / "file").prepare(), IoError);
}

TEST(Fingerprint, IsFnv1a) {
  EXPECT_EQ(fingerprint(""), "cbf29ce484222325");
  EXPECT_EQ(fingerprint("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(fingerprint("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace nestplan::cli
