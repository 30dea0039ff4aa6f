/** All parts of `components/ui` on one page: `npm run dev`, then /gallery.html. It is not in the build. */

import { CSPProvider } from '@base-ui/react/csp-provider';
import { createRoot } from 'react-dom/client';
import { Gallery } from './Gallery';
import '../styles/index.css';

createRoot(document.getElementById('page')!).render(
  <CSPProvider disableStyleElements>
    <Gallery />
  </CSPProvider>,
);
