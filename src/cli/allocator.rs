//! How the allocator uses address space where the process may have little of it.

/// Has all threads allocate from one arena if the address space of the process is limited, as by `ulimit -v`. To be
/// called before there are threads.
///
/// glibc gives each thread an arena of 64 MiB of addresses. Where these don't fit it asks for them all the same, each
/// time that the thread allocates, and gives back what it got; what another thread asks for in between is refused, and
/// the process ends. Runs of a program ask the system for what is large, so that one arena is enough for the rest.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn spare_address_space() {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: it writes to the structure that it is given. If it fails, nothing is known of a limit.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    if limit.rlim_cur != libc::RLIM_INFINITY {
        // SAFETY: it sets a number that the allocator reads. If it fails, things are as they were.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Other allocators are not known to take so much.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn spare_address_space() {}
