"""Functions of cuda.h: graphs, and captures, which make graphs of enqueued work.

What it is   `PROTOTYPES`, the C text of each function, as cuda_h.py explains it.
Source       cuda.h of CUDA 11.7 to 13.5; CUDA Driver API, "Stream Management", "Graph Management"
Read next    functions_arrays.py
"""

from __future__ import annotations

__all__ = ["PROTOTYPES"]

PROTOTYPES = r"""
/* Capture: enqueued work becomes part of a graph and is not executed */
CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode);
        // 10.1 ptsz  begin a capture; CUstreamCaptureMode decides which other calls are refused until it ends
CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph);
        // 10.0 ptsz  end a capture and get the graph; NULL if the capture was invalidated
CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus);
        // 10.0 ptsz  get whether the stream is being captured, and whether the capture was invalidated
CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out);
        // 10.1 ptsz  get whether the stream is being captured, and the number of the capture
CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
        CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out);
        // 11.3 ptsz  get the state of a capture, its graph, and what the next captured work depends on
CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
        CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,
        size_t *numDependencies_out);   // 12.3 ptsz  get the state of a capture, with the data of each dependency
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
        // 10.1  exchange the mode of this thread with *mode
CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
        const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode);
        // 12.3 ptsz  begin a capture that adds its work to an existing graph
CUresult cuStreamBeginRecaptureToGraph(CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
        CUgraphRecaptureCallback callbackFunc, void *userData);
        // 13.3 ptsz  begin a capture that compares its work with a graph, and updates it
CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
        unsigned int flags);   // 11.3 ptsz  change what the next captured work depends on
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
        const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags);
        // 12.3 ptsz  change what the next captured work depends on, with data for each dependency
CUresult cuStreamBeginCaptureToCig(CUstream hStream, CUstreamCigCaptureParams *streamCigCaptureParams);
        // 13.2 abi=13.1 ptsz  begin a capture of work for a graphics driver
CUresult cuStreamEndCaptureToCig(CUstream hStream);   // 13.2 abi=13.1 ptsz  end a capture of work for a graphics driver

/* Graphs: work that is defined once and launched many times */
CUresult cuGraphDestroy(CUgraph hGraph);   // 10.0  destroy a graph; executable graphs made from it stay valid
CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags);
        // 11.4  make an executable graph, see CUgraphInstantiate_flags
CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream);   // 10.0 ptsz  enqueue the work of the graph
CUresult cuGraphExecDestroy(CUgraphExec hGraphExec);
        // 10.0  destroy an executable graph; a launch in progress is completed first
CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags);   // 10.0  create an empty graph; flags is 0
CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph);   // 10.0  copy a graph
CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph);
        // 10.0  get the node of a copy that corresponds to a node of its original
CUresult cuGraphGetId(CUgraph hGraph, unsigned int *graphId);   // 13.1  get a graph's number
CUresult cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int *graphId);
        // 13.1  get the number of an executable graph
CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes);
        // 10.0  get the nodes, or with NULL their number
CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes);
        // 10.0  get the nodes without dependencies, or with NULL their number
CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags);
        // 12.0  get the flags that it was instantiated with
CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
        CUgraphExecUpdateResult *updateResult_out);
        // 10.2  change an executable graph to the parameters of another graph of the same form
CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo);
        // 12.0  change an executable graph to the parameters of another graph of the same form
CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags);
        // 11.3  write a graph to a file in the language of Graphviz, see CUgraphDebugDot_flags
CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
        CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams);
        // 12.0 ptsz  make an executable graph, and learn why it failed and in which node
CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream);
        // 11.1 ptsz  prepare an executable graph on the device, without running it
CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
        size_t bufferSize);   // 11.0  make an executable graph, and get a text that says why it failed

/* Nodes: each is added to a graph with the nodes that it waits for */
CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams);
        // 10.0  add a kernel that is a CUfunction
CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams);   // 12.0  add a kernel
CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams);
        // 10.0  get a CUfunction and its arguments
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams);
        // 12.0  get a kernel and its arguments; the driver owns them
CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams);
        // 10.0  set a CUfunction and its arguments
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams);
        // 12.0  set a kernel and its arguments
CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx);
        // 10.0  add a copy, which runs in a context
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams);   // 10.0  get a copy
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams);   // 10.0  set a copy
CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx);
        // 10.0  add a fill, which runs in a context
CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams);   // 10.0  get a fill
CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams);   // 10.0  set a fill
CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams);   // 10.0  add a call of a host function
CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams);
        // 10.0  get a host function and its argument
CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams);
        // 10.0  set a host function and its argument
CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUgraph childGraph);   // 10.0  add a copy of another graph as one node
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph);
        // 10.0  get the graph inside a node; it belongs to the node
CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies);   // 10.0  add a node that does nothing: a point where dependencies meet
CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUevent event);   // 11.1  add the recording of an event
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out);
        // 11.1  get the event that a node records
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event);   // 11.1  set the event that a node records
CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUevent event);   // 11.1  add a wait for an event
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out);
        // 11.1  get the event that a node waits for
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event);   // 11.1  set the event that a node waits for
CUresult cuGraphAddExternalSemaphoresSignalNode(CUgraphNode *phGraphNode, CUgraph hGraph,
        const CUgraphNode *dependencies, size_t numDependencies, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *nodeParams);
        // 11.2  add the signalling of external semaphores
CUresult cuGraphExternalSemaphoresSignalNodeGetParams(CUgraphNode hNode, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *params_out);
        // 11.2  get which semaphores a node signals
CUresult cuGraphExternalSemaphoresSignalNodeSetParams(CUgraphNode hNode,
        const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *nodeParams);   // 11.2  set which semaphores a node signals
CUresult cuGraphAddExternalSemaphoresWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *nodeParams);
        // 11.2  add a wait for external semaphores
CUresult cuGraphExternalSemaphoresWaitNodeGetParams(CUgraphNode hNode, CUDA_EXT_SEM_WAIT_NODE_PARAMS *params_out);
        // 11.2  get which semaphores a node waits for
CUresult cuGraphExternalSemaphoresWaitNodeSetParams(CUgraphNode hNode, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *nodeParams);
        // 11.2  set which semaphores a node waits for
CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams);
        // 11.7  add waits for values and writes of values in memory
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out);
        // 11.7  get the waits and writes of a node
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams);
        // 11.7  set the waits and writes of a node
CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams);
        // 11.4  add an allocation; its address is known at once, and the same in each launch
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out);
        // 11.4  get the parameters and the address of an allocation
CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUdeviceptr dptr);   // 11.4  add the freeing of an allocation
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out);
        // 11.4  get the address that a node frees
CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type);
        // 10.0  get the type of a node, see CUgraphNodeType
CUresult cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph *phGraph);
        // 13.1  get the graph that a node belongs to
CUresult cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int *nodeId);   // 13.1  get a node's number in its graph
CUresult cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long *toolsNodeId);
        // 13.1  get the number by which tools know a node
CUresult cuGraphDestroyNode(CUgraphNode hNode);   // 10.0  remove a node from its graph
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src);
        // 11.0  copy the launch attributes of one node to another
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out);
        // 11.0  get a launch attribute
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value);
        // 11.0  set a launch attribute
CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUgraphNodeParams *nodeParams);   // 12.2  add a node of any type
CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams);
        // 12.3  add a node of any type, with data for each dependency
CUresult cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams);
        // 13.4  add a node of any type, with data for each dependency
CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams);
        // 12.2  set the parameters of a node of any type
CUresult cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams *nodeParams);
        // 13.4  set the parameters of a node of any type
CUresult cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams);
        // 13.2  get the parameters of a node of any type
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx,
        unsigned int defaultLaunchValue, unsigned int flags);
        // 12.3  create the value that a conditional node tests; kernels set it

/* Edges: from a node to one that waits for it */
CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges);
        // 10.0  get the dependencies, or with NULL their number
CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData,
        size_t *numEdges);   // 12.3  get the dependencies with their data, or with NULL their number
CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies);
        // 10.0  get the nodes that a node waits for, or with NULL their number
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
        size_t *numDependencies);   // 12.3  get the nodes that a node waits for, or with NULL their number
CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes);
        // 10.0  get the nodes that wait for a node, or with NULL their number
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData,
        size_t *numDependentNodes);   // 12.3  get the nodes that wait for a node, or with NULL their number
CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies);
        // 10.0  add dependencies
CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
        const CUgraphEdgeData *edgeData, size_t numDependencies);   // 12.3  add dependencies with their data
CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
        size_t numDependencies);   // 10.0  remove dependencies
CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
        const CUgraphEdgeData *edgeData, size_t numDependencies);   // 12.3  remove dependencies

/* Executable graphs: changes of the parameters of their nodes */
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams);   // 11.7  change the waits and writes of a node
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams);   // 10.1  change a CUfunction and its arguments
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_KERNEL_NODE_PARAMS *nodeParams);   // 12.0  change a kernel and its arguments
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams,
        CUcontext ctx);   // 10.2  change a copy
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx);   // 10.2  change a fill
CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_HOST_NODE_PARAMS *nodeParams);   // 10.2  change a host function and its argument
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph);
        // 11.1  change the parameters of the graph inside a node
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event);
        // 11.1  change the event that a node records
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event);
        // 11.1  change the event that a node waits for
CUresult cuGraphExecExternalSemaphoresSignalNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *nodeParams);   // 11.2  change which semaphores a node signals
CUresult cuGraphExecExternalSemaphoresWaitNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
        const CUDA_EXT_SEM_WAIT_NODE_PARAMS *nodeParams);   // 11.2  change which semaphores a node waits for
CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled);
        // 11.6  enable or disable a node; a disabled node does nothing
CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled);
        // 11.6  get whether a node is enabled
CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams);
        // 12.2  change the parameters of a node of any type

/* Memory that graphs allocate, and objects that they keep alive */
CUresult cuDeviceGraphMemTrim(CUdevice device);   // 11.4  return memory that graphs do not use to the system
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value);
        // 11.4  get how much memory graphs use, see CUgraphMem_attribute
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value);
        // 11.4  reset a maximum, see CUgraphMem_attribute
CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount,
        unsigned int flags);   // 11.3  create an object with a reference count, and a function to destroy it
CUresult cuUserObjectRetain(CUuserObject object, unsigned int count);   // 11.3  increment an object's count
CUresult cuUserObjectRelease(CUuserObject object, unsigned int count);   // 11.3  decrement an object's count
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags);
        // 11.3  let a graph hold references to an object
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count);
        // 11.3  release references of a graph to an object
"""
