/* Fails one system call of a recording: the N-th CALL of a GROUP, by ptrace(2), so that calls without a wrapper are
 * reached too and no filter is seen by what is traced.
 *
 *   faults NOTES -- COMMAND...                       counts: a line "count GROUP CALL N" for each
 *   faults NOTES GROUP CALL N ERRNO -- COMMAND...    fails it:  a line "failed PATH"
 *
 * CALL and ERRNO are numbers; with -N all calls from the N-th on fail. Groups: a thread of COMMAND has that thread's name; `launch` is a child of COMMAND that
 * has not executed anything yet; `probe` is code of libmemtrace_probe.so in any other process. A line "program STATUS" says how the first child ended. Exits as COMMAND does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TASKS = 4096, GROUPS = 64, CALLS = 512, NAME = 16, OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL };

typedef struct {
    pid_t id, process;      /* 0: a free place */
    int executed;           /* a program, since it was forked */
    int fails;              /* the call it is in */
    uint64_t first, last;   /* where the probe's code is, once found; of COMMAND itself the linker's */
} Task;

static Task tasks[TASKS];
static struct { char name[NAME]; long counts[CALLS]; } groups[GROUPS];
static const char *group_to_fail;
static long call_to_fail, number_to_fail, error_to_give;
static pid_t root, program;
static FILE *notes;
static int is_over; /* the one call has failed: no other has to be seen */

/* The first line of a file in /proc/ID that begins so, without that. */
static int line_of(pid_t id, const char *file, const char *begin, char *line, int size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", id, file);
    FILE *opened = fopen(path, "r");
    int found = 0;
    while (opened && !found && fgets(line, size, opened)) found = !strncmp(line, begin, strlen(begin));
    if (opened) fclose(opened);
    if (found) {
        line[strcspn(line, "\n")] = 0;
        memmove(line, line + strlen(begin), strlen(line + strlen(begin)) + 1);
    }
    return found;
}

static Task *task_of(pid_t id) {
    Task *free = NULL;
    for (Task *task = tasks; task < tasks + TASKS; task++) {
        if (task->id == id) return task;
        if (!free && !task->id) free = task;
    }
    char line[256];
    *free = (Task){.id = id, .process = id};
    if (line_of(id, "status", "Tgid:", line, sizeof line)) free->process = atoi(line);
    /* A thread's process has; so has what forks, unless it is the child that COMMAND starts its own command in. */
    int is_started = line_of(id, "status", "PPid:", line, sizeof line) && atoi(line) == root;
    free->executed = free->process != id || (id != root && !is_started);
    return free;
}

static void find_code(Task *task, const char *file) {
    char path[64], line[512], permissions[8];
    snprintf(path, sizeof path, "/proc/%d/maps", task->id);
    FILE *maps = fopen(path, "r");
    uint64_t first, last;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, file) && sscanf(line, "%lx-%lx %7s", &first, &last, permissions) == 3 &&
            permissions[2] == 'x')
            task->first = first, task->last = last;
    if (maps) fclose(maps);
}

/* The group of a call, NULL if it is none of ours. */
static const char *group_of(Task *task, uint64_t instruction) {
    static char name[64];
    int is_root = task->process == root;
    if (!task->executed) return is_root ? NULL : "launch";
    if (!task->last) find_code(task, is_root ? "/ld-linux" : "/libmemtrace_probe.so");
    int is_there = instruction >= task->first && instruction < task->last;
    if (!is_root) return is_there ? "probe" : NULL;
    if (is_there) return NULL;
    if (task->id == root) return "main";
    return line_of(task->id, "comm", "", name, sizeof name) ? name : NULL;
}

/* A call that wakes others never fails; what is written to stderr has to say what fails elsewhere. */
static int may_fail(const struct __ptrace_syscall_info *now) {
    if (now->entry.nr == SYS_write && now->entry.args[0] == STDERR_FILENO) return 0;
    int operation = (int)now->entry.args[1] & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    return now->entry.nr != SYS_futex || operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
}

static long count(const char *name, long call) {
    int index = 0;
    while (groups[index].name[0] && strncmp(groups[index].name, name, NAME - 1)) index++;
    strncpy(groups[index].name, name, NAME - 1);
    return ++groups[index].counts[call % CALLS];
}

/* What a call is about: the path that it names, if it names one. */
static void note_failed(Task *task, const uint64_t *arguments) {
    char path[512] = "", memory[64];
    snprintf(memory, sizeof memory, "/proc/%d/mem", task->id);
    int file = open(memory, O_RDONLY | O_CLOEXEC);
    for (int index = 0; index < 2 && path[0] != '/'; index++)
        if (pread(file, path, sizeof path - 1, (off_t)arguments[index]) < 1) path[0] = 0;
    close(file);
    for (char *each = path; *each; each++)
        if (*each < ' ' || *each > '~') *each = 0;
    fprintf(notes, "failed %s\n", path);
    fflush(notes);
}

static void at_call(Task *task) {
    struct __ptrace_syscall_info now;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, task->id, sizeof now, &now) <= 0) return;
    if (now.op == PTRACE_SYSCALL_INFO_EXIT && task->fails) {
        task->fails = 0;
        is_over = number_to_fail > 0;
        ptrace(PTRACE_POKEUSER, task->id, offsetof(struct user_regs_struct, rax), -error_to_give);
    }
    if (now.op != PTRACE_SYSCALL_INFO_ENTRY || is_over) return;
    if (group_to_fail && (long)now.entry.nr != call_to_fail) return;
    const char *group = group_of(task, now.instruction_pointer);
    if (!group || !may_fail(&now)) return;
    long number = count(group, (long)now.entry.nr);
    int is_it = number_to_fail < 0 ? number >= -number_to_fail : number == number_to_fail;
    if (group_to_fail && !strcmp(group, group_to_fail) && is_it) {
        note_failed(task, (const uint64_t *)now.entry.args);
        task->fails = 1;
        ptrace(PTRACE_POKEUSER, task->id, offsetof(struct user_regs_struct, orig_rax), -1L);
    }
}

static void stopped(Task *task, int status) {
    int event = status >> 16, signal = WSTOPSIG(status), how = PTRACE_SYSCALL;
    long deliver = 0;
    if (signal == (SIGTRAP | 0x80)) {
        at_call(task);
    } else if (event == PTRACE_EVENT_EXEC) {
        task->executed = 1;
        task->first = task->last = 0;
        if (task->process != root && !program) program = task->process;
    } else if (event == PTRACE_EVENT_STOP) {
        if (signal != SIGTRAP) how = PTRACE_LISTEN;
    } else if (event == 0) {
        deliver = signal;
    }
    if (how == PTRACE_SYSCALL && is_over) how = PTRACE_CONT;
    ptrace(how, task->id, 0, deliver);
}

static int watch(void) {
    int status, code = 125;
    pid_t id;
    while ((id = waitpid(-1, &status, __WALL)) > 0) {
        Task *task = task_of(id);
        if (WIFSTOPPED(status)) {
            stopped(task, status);
            continue;
        }
        int ended = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (id == root) code = ended;
        if (id == program) fprintf(notes, "program %d\n", ended);
        *task = (Task){0};
    }
    return code;
}

static pid_t start(char **command) {
    int begin[2];
    if (pipe2(begin, O_CLOEXEC)) exit(2);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(begin[1]);
        if (read(begin[0], &byte, 1) == 1) execvp(command[0], command);
        _exit(127);
    }
    if (ptrace(PTRACE_SEIZE, child, 0, OPTIONS) || ptrace(PTRACE_INTERRUPT, child, 0, 0)) exit(2);
    if (write(begin[1], "", 1) != 1) exit(2);
    close(begin[0]);
    close(begin[1]);
    return child;
}

int main(int argc, char **argv) {
    int words = 2;
    while (words < argc && strcmp(argv[words], "--")) words++;
    if (words + 1 >= argc || (words != 2 && words != 6)) return 2;
    if (words == 6) {
        group_to_fail = argv[2];
        call_to_fail = atol(argv[3]), number_to_fail = atol(argv[4]), error_to_give = atol(argv[5]);
    }
    notes = fopen(argv[1], "we");
    if (!notes) return 2;
    root = start(argv + words + 1);
    int code = watch();
    for (int group = 0; group < GROUPS && !group_to_fail; group++)
        for (int call = 0; call < CALLS; call++)
            if (groups[group].counts[call])
                fprintf(notes, "count %s %d %ld\n", groups[group].name, call, groups[group].counts[call]);
    fclose(notes);
    return code;
}
