/** Where the service is: at the root of its host, or below a path of it, as a part of another application or behind a
 * proxy. */

const own = import.meta.url; // of this file's part of the built page, in the folder `assets`

/** The path before those of the page and the API: empty at the root of a host. */
export const basePath = import.meta.env.PROD ? new URL('..', own).pathname.replace(/\/$/, '') : '';

/** The address of the service, without a slash at its end. */
export const serviceAddress = location.origin + basePath;
