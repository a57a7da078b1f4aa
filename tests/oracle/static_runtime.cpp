#include "tests/oracle/oracle.hpp"

#include "tests/oracle/fake_cudart.h"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <link.h>
#include <string>
#include <sys/mman.h>

namespace oracle
{

using u64 = std::uint64_t;

/*
 * In some wheels (1.13) the runtime is linked into the allocator library, where no other library can take its
 * place. Its functions are still named in the symbol table of the file; each that the simulated device knows
 * is made to jump there.
 */
void redirect_static_runtime()
{
    struct Found {
        std::string path;
        u64 base;
    } found;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *user) {
            if (!std::strstr(info->dlpi_name, "libc10_cuda.so"))
                return 0;
            *static_cast<Found *>(user) = {info->dlpi_name, info->dlpi_addr};
            return 1;
        },
        &found);
    std::ifstream file(found.path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    if (bytes.size() < sizeof(Elf64_Ehdr))
        die("cannot read the allocator library " + found.path);
    const auto *header = reinterpret_cast<const Elf64_Ehdr *>(bytes.data());
    const auto *sections = reinterpret_cast<const Elf64_Shdr *>(bytes.data() + header->e_shoff);
    int redirected = 0;
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const char *names = bytes.data() + sections[sections[i].sh_link].sh_offset;
        const auto *symbols = reinterpret_cast<const Elf64_Sym *>(bytes.data() + sections[i].sh_offset);
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
            const char *name = names + symbols[k].st_name;
            if (ELF64_ST_TYPE(symbols[k].st_info) != STT_FUNC || symbols[k].st_size < 12)
                continue;
            void *target = fake_runtime_function(name);
            if (!target)
                continue;
            auto *code = reinterpret_cast<unsigned char *>(found.base + symbols[k].st_value);
            auto page = reinterpret_cast<u64>(code) & ~4095ull;
            if (mprotect(reinterpret_cast<void *>(page), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
                die("cannot make the allocator library writable");
            const unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0,    0,
                                            0,    0,    0, 0, 0xff, 0xe0}; /* mov rax; jmp rax */
            std::memcpy(code, jump, sizeof jump);
            std::memcpy(code + 2, &target, sizeof target);
            redirected++;
        }
    }
    if (redirected < 20)
        die("the allocator library has a CUDA runtime of its own whose functions are not named in it");
}

} // namespace oracle
