// The single executable file: CPython with frozen modules, isolated from the host. It reads no
// environment variable of Python, no file and no search path, and unpacks nothing.

#include <Python.h>

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <syslog.h>
#include <unistd.h>

#ifndef COMMAND
#define COMMAND L"import single_file_main"
#endif

extern const struct _frozen frozen_modules[];
extern PyObject *PyInit__message(void);
extern PyObject *PyInit__ssl(void);

// A runtime gives a plugin that it launches no standard error, so the system log gets the line too.
static void fail(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "nri-numamem: %s\n", text);
    if (getenv("NRI_PLUGIN_SOCKET") != NULL) {
        openlog("nri-numamem", LOG_PID, LOG_DAEMON);
        syslog(LOG_ERR, "%s", text);
    }
    exit(1);
}

static void fail_for(PyStatus status) {
    if (PyStatus_IsExit(status)) {
        exit(status.exitcode);
    }
    fail("the interpreter does not start: %s", status.err_msg ? status.err_msg : "no reason given");
}

// The kernel's functions that the plugin cannot do without. The dynamic linker checks the C library.
static void check_kernel(void) {
    int descriptor = syscall(SYS_memfd_create, "nri-numamem-check", 0);
    if (descriptor < 0) {
        struct utsname kernel;
        uname(&kernel);
        fail("memfd_create fails: %s (Linux %s); it needs Linux 4.18 or newer, and a system call filter "
             "that permits it", strerror(errno), kernel.release);
    }
    close(descriptor);
}

static void check(PyStatus status) {
    if (PyStatus_Exception(status)) {
        fail_for(status);
    }
}

static void start(int argc, char **argv) {
    PyPreConfig before;
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    check(Py_PreInitialize(&before));

    PyImport_FrozenModules = frozen_modules;
    PyImport_AppendInittab("google._upb._message", PyInit__message);
    PyImport_AppendInittab("_ssl", PyInit__ssl);

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.install_signal_handlers = 1;
    config.module_search_paths_set = 1; // none
    config.parse_argv = 0;
    config.pathconfig_warnings = 0;
    config.site_import = 0;
    config.use_frozen_modules = 1;
    config.write_bytecode = 0;
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length < 0 ? 0 : length] = 0;
    check(PyConfig_SetBytesString(&config, &config.executable, length < 0 ? argv[0] : program));
    check(PyConfig_SetString(&config, &config.base_executable, config.executable));
    // Folders that getpath would search for.
    check(PyConfig_SetString(&config, &config.prefix, L""));
    check(PyConfig_SetString(&config, &config.exec_prefix, L""));
    check(PyConfig_SetString(&config, &config.base_prefix, L""));
    check(PyConfig_SetString(&config, &config.base_exec_prefix, L""));
    check(PyConfig_SetString(&config, &config.stdlib_dir, L""));
    check(PyConfig_SetBytesArgv(&config, argc, argv));
    check(PyConfig_SetString(&config, &config.run_command, COMMAND));
    check(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
}

int main(int argc, char **argv) {
    check_kernel();
    start(argc, argv);
    return Py_RunMain();
}
