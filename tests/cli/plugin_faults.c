/* Plug-ins with one fault each, chosen by FAULT when they are compiled; plugin.py says what is told of them.
 */
#include "sim/policy.h"

#if FAULT == 0 /* no table at all */
const int nothing = 0;
#elif FAULT == 1 /* a function under the table's name */
int asim_policy_faulty(void);
int asim_policy_faulty(void)
{
    return 1;
}
#elif FAULT == 2 /* built for another version of the interface */
extern const asim_policy asim_policy_faulty;
const asim_policy asim_policy_faulty = {.version = ASIM_POLICY_VERSION + 1, .name = "faulty"};
#elif FAULT == 3 /* the right version and another size */
extern const uint32_t asim_policy_faulty[8];
const uint32_t asim_policy_faulty[8] = {ASIM_POLICY_VERSION};
#elif FAULT == 4 /* nothing in it */
extern const asim_policy asim_policy_faulty;
const asim_policy asim_policy_faulty = {
    .version = ASIM_POLICY_VERSION, .name = "faulty", .summary = "does nothing", .source = "none"};
#elif FAULT == 5 /* calls what nobody defines */
void asim_not_there(void);
extern const asim_policy asim_policy_faulty;
static void fini(asim_policy_state *state)
{
    (void)state;
    asim_not_there();
}
const asim_policy asim_policy_faulty = {.version = ASIM_POLICY_VERSION, .name = "faulty", .fini = fini};
#endif
