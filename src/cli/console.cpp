#include "cli/console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "cli/text.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {
namespace {

volatile std::sig_atomic_t g_stop = 0;
bool g_mute = false;

void on_stop(int) { g_stop = 1; }

/// Writes everything; returns 0 or the errno of what failed.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

void print_result(std::string_view text) {
  if (g_mute) return;
  const int error = write_all(STDOUT_FILENO, text);
  if (error != 0 && error != EPIPE) {
    throw IoError(fmt::format("standard output: {}", std::strerror(error)));
  }
}

void print_error_text(std::string_view text) {
  if (!g_mute) write_all(STDERR_FILENO, text);
}

void print_message(std::string_view line) { print_error_text(printable(line) + '\n'); }

void mute() { g_mute = true; }

void unmute() { g_mute = false; }

bool names_standard_output(const std::string& file) {
  struct stat named {};
  struct stat standard {};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &standard) == 0 &&
         named.st_dev == standard.st_dev && named.st_ino == standard.st_ino;
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::size_t stderr_columns() {
  constexpr std::size_t kUsual = 80;
  struct winsize size {};
  const bool told = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return told ? size.ws_col : kUsual;
}

void install_stop_handlers() {
  struct sigaction action {};
  action.sa_handler = on_stop;
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

bool stop_requested() { return g_stop != 0; }

void prepare_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  // Read-only, so that writing to a closed stdout still fails.
  int descriptor = ::open("/dev/null", O_RDONLY);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = ::open("/dev/null", O_RDONLY);
  if (descriptor > STDERR_FILENO) ::close(descriptor);
}

}  // namespace nestplan::cli
