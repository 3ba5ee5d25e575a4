/* Lets user-mode-linux 6.1 run on processors with newer registers (AMX). It sets a process's registers (NT_X86_XSTATE)
 * from a buffer that is too small for them, and current kernels only accept the complete set. This library, loaded by
 * LD_PRELOAD, completes the buffer with the current values of the other registers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

long ptrace(enum __ptrace_request request, ...)
{
	static long (*real)(enum __ptrace_request, ...);
	/* Static, because user-mode-linux calls this function on small stacks. */
	static char whole[1 << 16] __attribute__((aligned(64)));
	va_list more;

	va_start(more, request);
	int pid = va_arg(more, int);
	void *address = va_arg(more, void *);
	void *data = va_arg(more, void *);
	va_end(more);
	if (!real)
		real = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
		struct iovec *known = data, all = { whole, sizeof whole };

		if (real(PTRACE_GETREGSET, pid, address, &all) == 0 && all.iov_len > known->iov_len) {
			memcpy(whole, known->iov_base, known->iov_len);
			return real(request, pid, address, &all);
		}
	}
	return real(request, pid, address, data);
}
