#include "server/intake.h"

#include <pthread.h>

#include "base/arena.h"

struct intake {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t some;
    struct intake_job *waiting;
    bool closed, joined;
};

/* Lock held; at least one waits. Ties: first come. */
static struct intake_job *take_smallest(struct intake *in)
{
    struct intake_job **best = &in->waiting;
    for (struct intake_job **at = best; *at; at = &(*at)->next)
        if ((*at)->bytes < (*best)->bytes)
            best = at;
    struct intake_job *job = *best;
    *best = job->next;
    return job;
}

static void *work(void *self)
{
    struct intake *in = self;
    pthread_mutex_lock(&in->lock);
    for (;;) {
        while (!in->waiting && !in->closed)
            pthread_cond_wait(&in->some, &in->lock);
        if (!in->waiting)
            break;
        struct intake_job *job = take_smallest(in);
        const bool run = !in->closed;
        pthread_mutex_unlock(&in->lock);
        if (run)
            job->run(job);
        job->done(job);
        pthread_mutex_lock(&in->lock);
    }
    pthread_mutex_unlock(&in->lock);
    return NULL;
}

enum st intake_open(struct intake **out, struct err *e)
{
    struct intake *in = mem_alloc(sizeof *in);
    pthread_mutex_init(&in->lock, NULL);
    pthread_cond_init(&in->some, NULL);
    *out = in;
    if (pthread_create(&in->thread, NULL, work, in) == 0)
        return ST_OK;
    in->closed = in->joined = true;
    intake_free(out);
    return err_set(e, ST_IO, "the system has no thread for the requests that come in");
}

bool intake_push(struct intake *in, struct intake_job *job)
{
    pthread_mutex_lock(&in->lock);
    const bool taken = !in->closed;
    if (taken) {
        struct intake_job **last = &in->waiting;
        while (*last)
            last = &(*last)->next;
        job->next = NULL;
        *last = job;
        pthread_cond_signal(&in->some);
    }
    pthread_mutex_unlock(&in->lock);
    return taken;
}

void intake_close(struct intake *in)
{
    pthread_mutex_lock(&in->lock);
    in->closed = true;
    pthread_cond_signal(&in->some);
    pthread_mutex_unlock(&in->lock);
    if (!in->joined)
        pthread_join(in->thread, NULL);
    in->joined = true;
}

void intake_free(struct intake **out)
{
    struct intake *in = *out;
    *out = NULL;
    if (!in)
        return;
    intake_close(in);
    pthread_cond_destroy(&in->some);
    pthread_mutex_destroy(&in->lock);
    mem_free(in);
}
