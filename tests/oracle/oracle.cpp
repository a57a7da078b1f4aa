/*
 * The oracle: feeds operations to the allocator of an installed PyTorch and writes down what it does.
 *
 *   oracle record FILE     read cases (the format: tests/oracle/README.md), write them with this PyTorch's
 * answers oracle bench FILE      replay a sequence of `a ID BYTES STREAM` and `f ID`, print nanoseconds an
 * operation oracle case            the one case on standard input, in this process; `record` starts this for
 * each case
 *
 * FILE may be `-`. Answers that a case already holds are ignored. A case whose settings the release refuses,
 * or that ends in an error other than out of memory, is left out and named on standard error.
 *
 * Exit status: 0 done, 1 usage or input, 2 some cases were left out.
 */
#include "tests/oracle/oracle.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace oracle
{

void die(const std::string &what)
{
    std::fprintf(stderr, "oracle: %s\n", what.c_str());
    std::exit(1);
}

namespace
{

std::string after(const std::string &line, const char *word)
{
    std::string prefix = std::string(word) + " ";
    if (line.rfind(prefix, 0) != 0)
        die("expected `" + prefix + "...`, found `" + line + "`");
    return line.substr(prefix.size());
}

std::string next_line(std::istream &in)
{
    std::string line;
    if (!std::getline(in, line))
        die("the file ends in the middle of a case");
    return line;
}

/* Reads one case, with or without answers; false at the end of the file. */
bool read_case(std::istream &in, Case *c)
{
    std::string line;
    if (!std::getline(in, line))
        return false;
    *c = Case{};
    c->name = after(line, "case");
    c->settings = after(next_line(in), "conf");
    std::istringstream capacity(after(next_line(in), "capacity"));
    for (std::uint64_t bytes; capacity >> bytes;)
        c->capacity.push_back(bytes);
    if (c->capacity.empty())
        die("case " + c->name + " has no capacity");
    c->fraction = after(next_line(in), "fraction");
    size_t count = std::stoull(after(next_line(in), "ops"));
    for (size_t i = 0; i < count; i++) {
        line = next_line(in);
        size_t tab = line.find('\t');
        c->operations.push_back(line.substr(0, tab));
        if (tab != std::string::npos && line.compare(tab, 3, "\tM ") == 0)
            for (unsigned long map = std::stoul(line.substr(tab + 3)); map > 0; map--)
                next_line(in);
    }
    while (next_line(in) != "end") {
    }
    return true;
}

std::string write_case(const Case &c)
{
    std::string text = "case " + c.name + "\nconf " + c.settings + "\ncapacity";
    for (std::uint64_t bytes : c.capacity)
        text += " " + std::to_string(bytes);
    text += "\nfraction " + c.fraction + "\nops " + std::to_string(c.operations.size()) + "\n";
    for (const std::string &operation : c.operations)
        text += operation + "\n";
    return text + "end\n";
}

/* Plays a case in a process of its own, with its settings in the environment; false when that process failed.
 */
bool record_case(const Case &c, const char *program)
{
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0)
        die("no pipe");
    pid_t child = fork();
    if (child < 0)
        die("no process");
    if (child == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        for (int fd : {to[0], to[1], from[0], from[1]})
            close(fd);
        unsetenv("PYTORCH_ALLOC_CONF");
        unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
        if (c.settings == "-")
            unsetenv("PYTORCH_CUDA_ALLOC_CONF");
        else
            setenv("PYTORCH_CUDA_ALLOC_CONF", c.settings.c_str(), 1);
        execl("/proc/self/exe", program, "case", static_cast<char *>(nullptr));
        _exit(1);
    }
    close(to[0]);
    close(from[1]);
    std::string text = write_case(c), answer;
    /* The child reads all of its case before it writes, so this cannot block both ways. */
    for (size_t done = 0; done < text.size();) {
        ssize_t wrote = write(to[1], text.data() + done, text.size() - done);
        if (wrote <= 0)
            break;
        done += static_cast<size_t>(wrote);
    }
    close(to[1]);
    char buffer[65536];
    for (ssize_t got; (got = read(from[0], buffer, sizeof buffer)) > 0;)
        answer.append(buffer, static_cast<size_t>(got));
    close(from[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        std::fprintf(stderr, "oracle: case %s left out (conf %s)\n", c.name.c_str(), c.settings.c_str());
        return false;
    }
    std::fwrite(answer.data(), 1, answer.size(), stdout);
    return true;
}

int record(std::istream &in, const char *program)
{
    signal(SIGPIPE, SIG_IGN);
    int left_out = 0;
    for (Case c; read_case(in, &c);)
        left_out += record_case(c, program) ? 0 : 1;
    return left_out ? 2 : 0;
}

int play_one()
{
    Case c;
    if (!read_case(std::cin, &c))
        die("no case on standard input");
    try {
        if (has_static_runtime())
            redirect_static_runtime();
        std::string text = play(c);
        std::fwrite(text.data(), 1, text.size(), stdout);
    } catch (const std::exception &error) {
        std::string what = error.what();
        std::fprintf(stderr, "oracle: case %s: %s\n", c.name.c_str(),
                     what.substr(0, what.find('\n')).c_str());
        std::fflush(nullptr);
        _exit(1);
    }
    std::fflush(nullptr);
    _exit(0); /* the library's own endings would call the simulated device in no useful order */
}

} // namespace
} // namespace oracle

int main(int argc, char **argv)
{
    using namespace oracle;
    std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "case" && argc == 2)
        return play_one();
    if (argc != 3 || (mode != "record" && mode != "bench"))
        die("usage: oracle record FILE | oracle bench FILE");
    if (mode == "bench") {
        if (has_static_runtime())
            redirect_static_runtime();
        std::uint64_t operations = 0;
        double cost = bench(argv[2], &operations);
        std::printf("%llu operations, %.1f ns an operation\n", static_cast<unsigned long long>(operations),
                    cost);
        std::fflush(nullptr);
        _exit(0);
    }
    if (std::string(argv[2]) == "-")
        return record(std::cin, argv[0]);
    std::ifstream file(argv[2]);
    if (!file)
        die(std::string("cannot open ") + argv[2]);
    return record(file, argv[0]);
}
