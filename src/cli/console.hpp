#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nestplan::cli {

/// Writes a result to stdout. A reader that went away (`| head`) is no error; anything else that
/// keeps the text from arriving is an IoError.
void print_result(std::string_view text);

/// Writes to stderr as it stands; failures are ignored, there is nowhere left to report them.
void print_error_text(std::string_view text);

/// The same for one line, whatever the names in it are: what would break it is escaped.
void print_message(std::string_view line);

/// From here on nothing is printed: another rank speaks. `unmute` takes it back.
void mute();
void unmute();

/// True if `file` is where stdout goes.
bool names_standard_output(const std::string& file);

/// True if stderr is a terminal, and its columns if it is (80 if it does not tell).
bool stderr_is_terminal();
std::size_t stderr_columns();

/// From here on SIGINT, SIGTERM and SIGUSR1 (which mpirun passes on) ask the search to stop; a
/// second one ends the process.
void install_stop_handlers();

/// A stop was asked for.
bool stop_requested();

/// From here on a closed pipe is an error of the write, not the end of the process, and no file
/// that is opened can take the place of a standard stream that was closed from the start.
void prepare_standard_streams();

}  // namespace nestplan::cli
