#include "muster/xla/own_functions.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

namespace muster::inline v0_1::xla {
namespace {

#ifdef __x86_64__
constexpr bool is_pointer(const Elf64_Rela& reference) {
  const auto type = ELF64_R_TYPE(reference.r_info);
  return type == R_X86_64_GLOB_DAT || type == R_X86_64_JUMP_SLOT || type == R_X86_64_64;
}
#else
// oneDNN compiles its products on x86-64 alone.
constexpr bool is_pointer(const Elf64_Rela&) { return false; }
#endif

class LoadedLibrary {
 public:
  explicit LoadedLibrary(const dl_phdr_info& info) : base_(info.dlpi_addr) {
    for (const ElfW(Phdr) & segment : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
      const ElfW(Addr) begin = base_ + segment.p_vaddr;
      if (segment.p_type == PT_DYNAMIC) read(reinterpret_cast<const ElfW(Dyn)*>(begin));
      if (segment.p_type == PT_GNU_RELRO) {
        const ElfW(Addr) page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
        read_only_ = begin / page * page;
        read_only_end_ = (begin + segment.p_memsz) / page * page;
      }
    }
  }

  int bind(std::string_view word) const {
    set_access(PROT_READ | PROT_WRITE);
    int changed = 0;
    for (const auto& references : {references_, calls_}) {
      for (const ElfW(Rela) & reference : references) changed += bind(reference, word) ? 1 : 0;
    }
    set_access(PROT_READ);
    return changed;
  }

 private:
  template <typename T>
  T at(ElfW(Addr) address) const {
    return reinterpret_cast<T>(address);
  }

  void read(const ElfW(Dyn) * entry) {
    const ElfW(Rela)* references = nullptr;
    const ElfW(Rela)* calls = nullptr;
    size_t bytes = 0, bytes_of_calls = 0;
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) value = entry->d_un.d_ptr;
      switch (entry->d_tag) {
        case DT_SYMTAB:
          symbols_ = at<const ElfW(Sym)*>(value);
          break;
        case DT_STRTAB:
          names_ = at<const char*>(value);
          break;
        case DT_RELA:
          references = at<const ElfW(Rela)*>(value);
          break;
        case DT_RELASZ:
          bytes = entry->d_un.d_val;
          break;
        case DT_JMPREL:
          calls = at<const ElfW(Rela)*>(value);
          break;
        case DT_PLTRELSZ:
          bytes_of_calls = entry->d_un.d_val;
          break;
        default:
          break;
      }
    }
    references_ = {references, bytes / sizeof(ElfW(Rela))};
    calls_ = {calls, bytes_of_calls / sizeof(ElfW(Rela))};
  }

  bool bind(const ElfW(Rela) & reference, std::string_view word) const {
    if (!is_pointer(reference)) return false;
    const ElfW(Sym)& symbol = symbols_[ELF64_R_SYM(reference.r_info)];
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return false;
    if (std::string_view(names_ + symbol.st_name).find(word) == std::string_view::npos)
      return false;
    const ElfW(Addr) own = base_ + symbol.st_value + static_cast<ElfW(Addr)>(reference.r_addend);
    auto* const pointer = at<ElfW(Addr)*>(base_ + reference.r_offset);
    if (*pointer == own) return false;
    *pointer = own;
    return true;
  }

  // Of the pointers that the dynamic linker makes read-only after it wrote them.
  void set_access(int access) const {
    if (read_only_ == read_only_end_) return;
    if (mprotect(at<void*>(read_only_), read_only_end_ - read_only_, access) != 0)
      throw std::runtime_error(std::string("mprotect: ") + strerror(errno));
  }

  ElfW(Addr) base_;
  ElfW(Addr) read_only_ = 0, read_only_end_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  std::span<const ElfW(Rela)> references_, calls_;
};

struct Search {
  std::string_view file;
  std::optional<LoadedLibrary> found{};
};

int look_at(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::string_view path = info->dlpi_name;
  if (path.substr(path.rfind('/') + 1).find(search.file) == std::string_view::npos) return 0;
  search.found.emplace(*info);
  return 1;
}

}  // namespace

int bind_own_functions(std::string_view file, std::string_view word) {
  Search search{.file = file};
  dl_iterate_phdr(look_at, &search);
  if (!search.found)
    throw std::runtime_error("the library " + std::string(file) + " is not loaded");
  return search.found->bind(word);
}

}  // namespace muster::inline v0_1::xla
