/* Everything that has an address or a handle, by class and key. */
#include <stdlib.h>

#include "driver.h"

#define BUCKETS 4096
static struct entry *buckets[BUCKETS], *lists[CLASSES], *spares[CLASSES];

static struct entry **bucket(enum class class, uint64_t key) {
    return &buckets[((key >> 9) * 31 + (key >> 4) + class) % BUCKETS];
}

static void unchain(struct entry *entry) {
    struct entry **at = bucket(entry->class, entry->key);
    while (*at != entry) at = &(*at)->chain;
    *at = entry->chain;
}

static void chain(struct entry *entry, uint64_t key) {
    entry->key = key;
    struct entry **at = bucket(entry->class, key);
    entry->chain = *at;
    *at = entry;
}

void *new_entry(enum class class, size_t bytes) {
    struct entry *entry = spares[class];
    if (entry) {
        spares[class] = entry->next;
        memset(entry, 0, bytes);
    } else if ((entry = calloc(1, bytes)) == NULL) {
        abort();
    }
    entry->class = class;
    entry->next = lists[class];
    if (entry->next) entry->next->previous = entry;
    lists[class] = entry;
    chain(entry, KEY(entry));
    return entry;
}

void set_key(void *entry, uint64_t key) {
    unchain(entry);
    chain(entry, key);
}

void *find(enum class class, uint64_t key) {
    struct entry *entry = *bucket(class, key);
    while (entry && (entry->class != class || entry->key != key)) entry = entry->chain;
    return entry;
}

void drop(void *dropped) {
    struct entry *entry = dropped;
    unchain(entry);
    if (entry->next) entry->next->previous = entry->previous;
    if (entry->previous) entry->previous->next = entry->next;
    else lists[entry->class] = entry->next;
    entry->next = spares[entry->class];
    spares[entry->class] = entry;
}

struct entry *first(enum class class) { return lists[class]; }
