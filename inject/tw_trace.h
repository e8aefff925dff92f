/* libtwinfer_inject.so: records what a CUDA process does on its GPUs, from inside that process.
 *
 * The driver loads it by CUDA_INJECTION64_PATH, NVTX by NVTX_INJECTION64_PATH; no change to the
 * program is needed. TWINFER_TRACE names a settings file (trace/settings.h), or just the folder
 * that spools (trace/spool.h) are written to. Without TWINFER_TRACE it does nothing.
 *
 * It is a guest: it never prints to stdout, aborts, exits, changes the locale or keeps a signal. If
 * it cannot record (old CUPTI, no disk space), it reports that in the spool or once on stderr, and
 * the program continues.
 *
 * A program may use the functions below, found with dlsym; all may be called from any thread. */
#ifndef TW_TRACE_H
#define TW_TRACE_H

#ifdef __cplusplus
extern "C" {
#endif

#define TW_TRACE_API __attribute__((visibility("default")))

/* Stop recording and release CUPTI: every activity kind off, the subscriber released, so that
 * another profiler in this process can start. Synchronize the GPU first: records of work that still
 * runs are lost. With graphs=graph CUPTI is not released, as its records of whole graphs cannot be
 * switched off again without ending the program. Do not use a profiler that tears CUPTI down at its
 * end (PyTorch's with TEARDOWN_CUPTI=1) in programs that launch CUDA graphs made before it: CUPTI
 * 13.0 ends those. Returns 1 when it was recording. */
TW_TRACE_API int tw_trace_pause(void);
/* Take CUPTI again. Returns 1 when it records (or waits for its gate), 2 when it records without
 * launch times because another tool still holds CUPTI's one subscriber (pause, and try again
 * later), 0 when CUPTI refuses. */
TW_TRACE_API int tw_trace_resume(void);
/* Write everything recorded so far to the file. Returns 1, 0 when there is no file. */
TW_TRACE_API int tw_trace_flush(void);
/* Change settings while recording, by the names in the settings file: for programs that compare the
 * cost of settings. NULL key ends the list of pairs: {"copies", "0", "api", "none", NULL}. The
 * level of graphs stays as it was when CUDA was initialized. While it records, CUPTI is switched
 * off and on again: best called while paused. Returns 1 when all could be set. */
TW_TRACE_API int tw_trace_configure(const char *const *pairs);

/* Entry points, called by the driver and by NVTX. */
TW_TRACE_API int InitializeInjection(void);

#ifdef __cplusplus
}
#endif
#endif
